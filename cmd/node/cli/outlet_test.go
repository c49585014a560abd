package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// slow is a reader that can stand still.
type slow struct {
	gate chan struct{}
	text bytes.Buffer
	err  error
}

func (s *slow) Write(p []byte) (int, error) {
	<-s.gate
	if s.err != nil {
		return 0, s.err
	}
	return s.text.Write(p)
}

// What does not fit while nobody reads is counted, and the count is written in its place; nobody waits for it.
func TestOutlet_WhoWritesNeverWaits(t *testing.T) {
	for name, line := range map[string]string{"many lines": "a line\n", "long lines": strings.Repeat("x", 1<<20) + "\n"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				to := &slow{gate: make(chan struct{})}
				o := newOutlet(to, func(lost int64) []byte { return fmt.Appendf(nil, "lost %d\n", lost) })
				defer close(o.queue)
				begun := time.Now()
				const sent = 3 * outletLines
				for range sent {
					n, err := o.Write([]byte(line))
					require.NoError(t, err)
					require.Equal(t, len(line), n)
				}
				o.flush(time.Second)
				require.Equal(t, time.Second, time.Since(begun), "a flush is bounded")
				close(to.gate)
				synctest.Wait()
				_, _ = o.Write([]byte("the last\n")) // it never fails
				o.flush(time.Second)
				written := strings.Count(to.text.String(), line)
				require.Positive(t, written)
				require.LessOrEqual(t, written*len(line), outletBytes+len(line))
				require.Contains(t, to.text.String(), fmt.Sprintf("lost %d\n", sent-written))
				require.True(t, strings.HasSuffix(to.text.String(), "the last\n"))
			})
		})
	}
}

// A file that takes nothing for a while takes the count of what is missing when it does again.
func TestOutlet_FailuresAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &slow{gate: make(chan struct{}), err: errors.New("no room")}
		close(to.gate)
		o := newOutlet(to, func(lost int64) []byte { return fmt.Appendf(nil, "lost %d\n", lost) })
		defer close(o.queue)
		for range 5 {
			_, _ = o.Write([]byte("x\n"))
		}
		o.flush(time.Second)
		to.err = nil
		_, _ = o.Write([]byte("y\n"))
		o.flush(time.Second)
		require.Equal(t, "lost 5\ny\n", to.text.String())
	})
}
