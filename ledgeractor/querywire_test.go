package ledgeractor

import (
	"bufio"
	"bytes"
	"database/sql/driver"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

var wireValues = []driver.Value{nil, int64(0), int64(math.MinInt64), int64(math.MaxInt64), 1.5, math.Inf(-1), "", "a\x00b\xff", []byte{}, []byte{0, 255},
	true, false, time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)}

func TestQueryWire_RoundTrips(t *testing.T) {
	q := childQuery{path: "/a/ledger.db", evict: "/b", sql: "SELECT ?", maxValue: 1 << 24, cacheKiB: 512, maxRows: 10, maxBytes: 8 << 20}
	for i, v := range wireValues {
		q.args = append(q.args, driver.NamedValue{Name: "n", Ordinal: i + 1, Value: v})
	}
	body, err := q.encode()
	require.NoError(t, err)
	got, err := decodeChildQuery(body)
	require.NoError(t, err)
	require.Equal(t, q, got)
	for n := range body { // cut off anywhere
		_, err := decodeChildQuery(body[:n])
		require.ErrorIs(t, err, errWire, n)
	}
	row := make([]driver.Value, len(wireValues))
	body, err = appendRow(nil, wireValues)
	require.NoError(t, err)
	require.NoError(t, decodeRow(body, row))
	require.Equal(t, wireValues, row)
	_, err = appendRow(nil, []driver.Value{1})
	require.ErrorIs(t, err, errWire)

	names, err := decodeStrings(appendStrings(nil, []string{"a", "", "ä"}))
	require.NoError(t, err)
	require.Equal(t, []string{"a", "", "ä"}, names)

	end, err := decodeQueryEnd(queryEnd{seq: 7, truncated: true}.encode(nil))
	require.NoError(t, err)
	require.Equal(t, queryEnd{seq: 7, truncated: true}, end)
	_, err = decodeQueryEnd(queryEnd{}.encode(tooLarge("x")))
	require.ErrorIs(t, err, messages.ErrTooLarge)

	var stream bytes.Buffer
	require.NoError(t, writeFrame(&stream, frameRow, []byte("body")))
	whole := stream.Bytes()
	kind, body, err := readFrame(bufio.NewReader(bytes.NewReader(whole)), 4)
	require.NoError(t, err)
	require.Equal(t, frameRow, kind)
	require.Equal(t, "body", string(body))
	_, _, err = readFrame(bufio.NewReader(bytes.NewReader(whole)), 3)
	require.ErrorIs(t, err, errWire, "nothing is allocated for more than the limit")
}

// What a process sends is not trusted: it runs the SQL of others.
func FuzzQueryWire(f *testing.F) {
	row, err := appendRow(nil, wireValues)
	require.NoError(f, err)
	f.Add(row)
	f.Add(queryEnd{seq: 1}.encode(tooLarge("x")))
	f.Add(appendStrings(nil, []string{"a", "b"}))
	f.Add([]byte{valueBlob, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, body []byte) {
		if q, err := decodeChildQuery(body); err == nil {
			again, err := q.encode()
			require.NoError(t, err)
			_, err = decodeChildQuery(again)
			require.NoError(t, err)
		}
		_, _ = decodeStrings(body)
		_, _ = decodeQueryEnd(body)
		_ = decodeRow(body, make([]driver.Value, len(wireValues)))
	})
}
