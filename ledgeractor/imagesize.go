package ledgeractor

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/leasehold/leasehold/messages"
)

// What an image cannot hold must not be acknowledged: it would stand on this disk only, and be lost with the next handoff.
// An image has every page that the database has, free ones too, so that the number of pages inside of the open transaction
// says how large the image will be, wherever the pages are (in the WAL, or in a cache). Deleting frees pages for later
// writes, and makes no image smaller; but it never needs more.

// rowPages is more than one row can add to the database besides the pages that its own bytes fill: a few at each
// level of the trees of events and its index.
const rowPages = 64

// imageSize is what the guard knows of it.
type imageSize struct {
	pageSize int64
	atMost   int64 // the size is not above this; it is measured when that does not suffice
}

// measureImage returns the size of the image that would be taken if the open transaction were committed.
func (g *guard) measureImage() (int64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.own = true
	defer func() { g.own = false }()
	rows, err := g.pages.QueryContext(context.Background(), nil)
	if err != nil {
		return 0, g.failed(err)
	}
	var row [1]driver.Value
	err = rows.Next(row[:])
	if err = errors.Join(err, rows.Close()); err != nil {
		return 0, g.failed(err)
	}
	n, _ := row[0].(int64)
	g.image.atMost = n * g.image.pageSize
	return g.image.atMost, nil
}

// checkImage refuses what the open transaction holds if it could not be copied.
func (g *guard) checkImage() error {
	size, err := g.measureImage()
	if err == nil && size > g.cfg.Limits.MaxImageBytes {
		err = &messages.Error{Code: messages.CodeTooLarge, Key: g.fail.key,
			Message: "the ledger would be over its limit (max_image): it could not be copied any more"}
	}
	return err
}

// fits reports whether these rows certainly leave the ledger below the limit, and counts them in. Far from
// the limit that costs nothing.
func (g *guard) fits(rows []eventRow) (bool, error) {
	grows := int64(0)
	for _, row := range rows {
		grows += row.bytes + row.bytes/64 + rowPages*g.image.pageSize
	}
	if g.image.atMost+grows > g.cfg.Limits.MaxImageBytes {
		if _, err := g.measureImage(); err != nil {
			return false, err
		}
	}
	g.image.atMost += grows
	return g.image.atMost <= g.cfg.Limits.MaxImageBytes, nil
}
