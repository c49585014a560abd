package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

// What is shown of a step that broke: the lines of the nodes' logs about the tenants that it names, from its time.
func TestAFindingComesWithItsLogLines(t *testing.T) {
	log := filepath.Join(t.TempDir(), "n1.1.log")
	mine, others := key(t), "drill/t-00000000000000000000000000000000"
	line := func(ms int, level, msg, key string) string {
		return fmt.Sprintf(`{"time":%q,"level":%q,"msg":%q,"key":%q}`, at(ms).Format(time.RFC3339Nano), level, msg, key) + "\n"
	}
	require.NoError(t, os.WriteFile(log, []byte(line(-60_000, "ERROR", "long before", mine.String())+line(100, "INFO", "mine", mine.String())+"not a log line\n"+
		line(150, "WARN", "of another", others)+line(90_000, "ERROR", "long after", mine.String())+`{"half`), 0o600))
	d := &drill{keys: []messages.Key{mine}, nodes: []*node{{lives: []life{{log: log}}}}}
	shows := func(f Figure) string {
		t.Helper()
		lines, err := d.evidence(f)
		require.NoError(t, err)
		return strings.Join(lines, "\n")
	}
	step := Figure{Begun: at(0), Took: time.Second, Broken: []string{"1 requests failed"}, Texts: []string{"the first failure, tenant 0: draining"}}
	require.Equal(t, "n1.1.log: "+strings.TrimSpace(line(100, "INFO", "mine", mine.String())), shows(step))
	step.Texts = nil
	require.Equal(t, "n1.1.log: "+strings.TrimSpace(line(150, "WARN", "of another", others)), shows(step), "nobody is named: warnings and errors")
	check := shows(Figure{Broken: []string{mine.String() + ": epoch 4 was granted after epoch 2"}})
	require.Equal(t, 3, strings.Count(check, "\n")+1, check)
	require.Empty(t, shows(Figure{Begun: at(0), Took: time.Second}))
	d.nodes[0].lives[0].log += ".gone"
	_, err := d.evidence(step)
	require.ErrorIs(t, err, os.ErrNotExist)
}
