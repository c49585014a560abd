package history

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/mattn/go-sqlite3"

	"github.com/leasehold/leasehold/messages"
)

// ReadImage returns the rows of the events table of an SQLite image, in the order of seq. Any error
// means that the image is no sound database with such a table.
func ReadImage(ctx context.Context, image []byte) (rows []Row, err error) {
	// Bytes 18 and 19 of the header say 2 for a file in WAL mode, which an image in memory cannot
	// be opened in; nothing else changes (https://sqlite.org/fileformat2.html, 1.3).
	image = bytes.Clone(image)
	if len(image) < 100 {
		return nil, errors.New("not an SQLite image")
	}
	image[18], image[19] = 1, 1
	db, err := sql.Open("sqlite3", ":memory:")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	err = conn.Raw(func(driver any) error {
		return driver.(*sqlite3.SQLiteConn).Deserialize(image, "main")
	})
	if err != nil {
		return nil, fmt.Errorf("open the image: %w", err)
	}
	var verdict string
	if err := conn.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&verdict); err != nil || verdict != "ok" {
		return nil, fmt.Errorf("the image is damaged: %s: %w", verdict, err)
	}
	found, err := conn.QueryContext(ctx, `SELECT seq, tenant_id, coalesce(subject_id, ''), coalesce(idem_key, '') FROM events ORDER BY seq`)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var r Row
		var tenant string
		if err := found.Scan(&r.Seq, &tenant, &r.ID, &r.IdemKey); err != nil {
			return nil, err
		}
		r.Tenant = messages.TenantID(tenant)
		rows = append(rows, r)
	}
	return rows, found.Err()
}
