package record

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

func line() Line {
	return Line{Kind: Ack, At: 17, Wall: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Proc: "r1.1", Key: "drill/t-1", Write: "w-1", Epoch: 3, Seq: 9,
		From: &messages.Position{Epoch: 2, Snapshot: 7}, Life: &messages.Lifecycle{Kind: messages.LifecycleServing, Epoch: 3}}
}

func TestDecodeReadsWhatEncodeWrites(t *testing.T) {
	data, err := line().Encode()
	require.NoError(t, err)
	require.Equal(t, byte('\n'), data[len(data)-1])
	back, err := Decode(data[:len(data)-1])
	require.NoError(t, err)
	require.Equal(t, line(), back)
}

func TestDecodeRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":       ``,
		"no object":     `[1]`,
		"half of one":   `{"k":"ack","at":1,"p":"r1`,
		"two":           `{"k":"ack","at":1,"p":"r1"}{"k":"ack","at":1,"p":"r1"}`,
		"no kind":       `{"at":1,"p":"r1"}`,
		"no process":    `{"k":"ack","at":1}`,
		"no time":       `{"k":"ack","p":"r1"}`,
		"unknown field": `{"k":"ack","at":1,"p":"r1","epoch":1}`,
		"wrong type":    `{"k":"ack","at":"1","p":"r1"}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Decode([]byte(text))
			require.Error(t, err)
		})
	}
}

// FuzzDecode: whatever is in a file, Decode does not panic, and what it accepts it writes again.
func FuzzDecode(f *testing.F) {
	data, err := line().Encode()
	require.NoError(f, err)
	f.Add(data)
	f.Add([]byte(`{"k":"row","at":1,"p":"verifier","seq":1,"w":"w","tenant":"t"}`))
	f.Add([]byte(`{"k":"refused","at":9,"p":"r1.1","code":"fenced","reason":"lease-lost","untyped":true}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := Decode(data)
		if err != nil {
			return
		}
		again, err := l.Encode()
		if err != nil {
			return // a time after the year 9999
		}
		back, err := Decode(again[:len(again)-1])
		require.NoError(t, err)
		third, err := back.Encode()
		require.NoError(t, err)
		require.Equal(t, string(again), string(third))
	})
}

func TestWriterStampsAndKeepsEveryLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records", "r1.1.jsonl")
	w, err := Create(path, "r1.1")
	require.NoError(t, err)
	before := Now()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 50 {
				if err := w.Write(Line{Kind: Intent, Write: fmt.Sprintf("w-%d-%d", i, n)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.NoError(t, w.Close())
	require.Error(t, w.Write(Line{Kind: Intent}), "after Close")

	lines, err := ReadFile(path)
	require.NoError(t, err)
	require.Len(t, lines, 400)
	seen := map[string]bool{}
	for i, l := range lines {
		require.Equal(t, "r1.1", l.Proc)
		require.GreaterOrEqual(t, l.At, before)
		require.LessOrEqual(t, l.At, Now())
		if i > 0 {
			require.GreaterOrEqual(t, l.At, lines[i-1].At, "lines are in the order of their times")
		}
		seen[l.Write] = true
	}
	require.Len(t, seen, 400)
}

func TestCreateNeverContinuesAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r1.1.jsonl")
	w, err := Create(path, "r1.1")
	require.NoError(t, err)
	defer w.Close()
	_, err = Create(path, "r1.1")
	require.ErrorIs(t, err, os.ErrExist)
}

func TestReadFileDropsATornLastLineOnly(t *testing.T) {
	whole, err := line().Encode()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "r1.1.jsonl")
	for cut := range len(whole) {
		require.NoError(t, os.WriteFile(path, append(append([]byte{}, whole...), whole[:cut]...), 0o600))
		lines, err := ReadFile(path)
		require.NoError(t, err, "cut at %d", cut)
		require.Len(t, lines, 1)
	}
	require.NoError(t, os.WriteFile(path, append(whole[:20:20], append([]byte("\n"), whole...)...), 0o600))
	_, err = ReadFile(path)
	require.ErrorContains(t, err, "line 1")
	_, err = ReadFile(path + ".absent")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestReadDirOrdersByTime(t *testing.T) {
	dir := t.TempDir()
	for i, at := range []int64{30, 10, 20} {
		w, err := Create(filepath.Join(dir, fmt.Sprintf("r%d.1.jsonl", i)), fmt.Sprintf("r%d.1", i))
		require.NoError(t, err)
		require.NoError(t, w.Write(Line{Kind: Started, At: at}))
		require.NoError(t, w.Close())
	}
	lines, err := ReadDir(dir)
	require.NoError(t, err)
	require.Equal(t, []int64{10, 20, 30}, []int64{lines[0].At, lines[1].At, lines[2].At})
}

func TestTailGivesEachLineOnceItIsWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r1.1.jsonl")
	tail := NewTail(path)
	lines, err := tail.Next()
	require.NoError(t, err, "the file is not there yet")
	require.Empty(t, lines)

	whole, err := line().Encode()
	require.NoError(t, err)
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.Write(whole[:10])
	require.NoError(t, err)
	lines, err = tail.Next()
	require.NoError(t, err)
	require.Empty(t, lines, "half a line")
	_, err = f.Write(append(whole[10:len(whole):len(whole)], whole...))
	require.NoError(t, err)
	lines, err = tail.Next()
	require.NoError(t, err)
	require.Len(t, lines, 2)
	lines, err = tail.Next()
	require.NoError(t, err)
	require.Empty(t, lines, "nothing new")
	require.NoError(t, tail.Close())
}
