package sqllease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// Connector opens connections and shows each to Check before it is used: after a failover, or a change of
// the server's configuration, a pool must not go on with a server that forgets.
type Connector struct {
	driver.Connector
	// Settings is a statement with one row: the name and the value of each setting in turn, as text.
	Settings string
	// Judge returns the name of a setting that must not be so, and what it puts at risk; or "".
	Judge func(values map[string]string) (name, risk string)
	// AllowUnsafe lets every server pass.
	AllowUnsafe bool
	// Timeout of opening a connection.
	Timeout time.Duration
}

// Connect implements driver.Connector. A setting that is refused is CodeInvalidArgument, with its name as
// the Object.
func (c *Connector) Connect(ctx context.Context) (driver.Conn, error) {
	// database/sql opens some connections with no deadline; a server that accepts and says nothing must
	// not hold up the pool.
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.check(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func (c *Connector) check(ctx context.Context, conn driver.Conn) error {
	values, err := settings(ctx, conn, c.Settings)
	if err != nil || c.AllowUnsafe {
		return err
	}
	if name, risk := c.Judge(values); name != "" {
		return &messages.Error{Code: messages.CodeInvalidArgument, Object: name,
			Message: fmt.Sprintf("refused: %s is %q: %s", name, values[name], risk)}
	}
	return nil
}

func settings(ctx context.Context, conn driver.Conn, statement string) (map[string]string, error) {
	queryer, ok := conn.(driver.QueryerContext)
	if !ok {
		return nil, fmt.Errorf("the driver's connections cannot be asked: %T", conn)
	}
	rows, err := queryer.QueryContext(ctx, statement, nil)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	row := make([]driver.Value, len(rows.Columns()))
	if err := rows.Next(row); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the server does not tell its settings")
		}
		return nil, err
	}
	values := map[string]string{}
	for i := 0; i+1 < len(row); i += 2 {
		values[text(row[i])] = text(row[i+1])
	}
	return values, nil
}

func text(v driver.Value) string {
	switch v := v.(type) {
	case []byte:
		return string(v)
	case nil:
		return ""
	}
	return fmt.Sprint(v)
}

// OpenDB returns a pool of at most conns connections. Idle ones are closed after a while, and all are
// replaced in time, so that a pool follows its server through a failover.
func OpenDB(c *Connector, conns int) *sql.DB {
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	db.SetConnMaxIdleTime(5 * time.Minute)
	db.SetConnMaxLifetime(30 * time.Minute)
	return db
}
