package ledgeractor

import (
	"database/sql/driver"

	"github.com/mattn/go-sqlite3"

	"github.com/leasehold/leasehold/messages"
)

// storedRows makes rows hand out what is stored, and every query goes through it. The driver converts by the type that a column was
// declared with, and loses what does not fit (a DATETIME that it cannot read becomes the year 1, a BOOLEAN 2 becomes true); the list
// of these types is its own, and without them it converts nothing. That is no promise of the driver's: TestQ4_StoredValues notices if
// an update changes it.
func storedRows(rows driver.Rows, err error) (driver.Rows, error) {
	if err == nil {
		clear(rows.(*sqlite3.SQLiteRows).DeclTypes())
	}
	return rows, err
}

// storedArgs makes values of SQL of arguments. It may call code of the application (driver.Valuer), and so no lock is held.
func storedArgs(args []driver.NamedValue) ([]driver.NamedValue, error) {
	out := make([]driver.NamedValue, len(args))
	for i, arg := range args {
		value, err := messages.SQLValue(arg.Value)
		if err != nil {
			return nil, err
		}
		out[i] = driver.NamedValue{Name: arg.Name, Ordinal: arg.Ordinal, Value: value}
	}
	return out, nil
}
