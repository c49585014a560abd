package ledgeractor

import (
	"bufio"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// A node starts its own executable as a query process: under this name, with this variable, and with a socket as its file 3.
const (
	queryProcessName = "leasehold-query"
	queryProcessEnv  = "LEASEHOLD_QUERY_PROCESS"
)

func queryProcessArgs(memory int64) []string {
	return []string{queryProcessName, strconv.FormatInt(memory, 10)}
}

// A query process is decided here, before main and before most of what the program is made of: no program must do anything for
// it, and none can run a second time by mistake.
func init() {
	if len(os.Args) != 2 || os.Args[0] != queryProcessName || os.Getenv(queryProcessEnv) == "" {
		return
	}
	socket := os.NewFile(3, "queries")
	info, err := socket.Stat()
	if err == nil && info.Mode()&os.ModeSocket == 0 {
		err = errors.New("it is started by a node only")
	}
	if err == nil {
		err = serveQueries(socket, os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, queryProcessName+":", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// What a query process may take beside the memory of SQLite: the values of a row on their way, and the runtime with its threads.
const (
	childHeap    = 64 << 20
	childRoom    = 320 << 20
	childNice    = 10
	childMaxFile = 2 << 30 // of one temporary file
)

// confine bounds what this process can do to the node, and to the machine.
func confine(memory int64) error {
	// The node stops its queries itself; what stops the node must not.
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGXFSZ)
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(childHeap)
	if err := limitMemory(context.Background(), memory); err != nil {
		return err
	}
	for resource, limit := range map[int]uint64{syscall.RLIMIT_DATA: dataSize() + uint64(memory) + childRoom, syscall.RLIMIT_FSIZE: childMaxFile, syscall.RLIMIT_CORE: 0} {
		if err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
			return fmt.Errorf("set limit %d of a query process: %w", resource, err)
		}
	}
	// All threads: the process leads a group of its own. Renewals and writes come first.
	if err := syscall.Setpriority(syscall.PRIO_PGRP, 0, childNice); err != nil {
		return fmt.Errorf("lower the priority of a query process: %w", err)
	}
	// If the machine runs out of memory, this process goes first. There is no such file on other systems.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	return nil
}

// dataSize is what this process has of what RLIMIT_DATA bounds, in bytes: little, but for the race detector. It is 0 where the system
// does not tell.
func dataSize() uint64 {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if kib, ok := strings.CutPrefix(line, "VmData:"); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kib), "kB")), 10, 64)
			return n << 10
		}
	}
	return 0
}

// child is what a query process works with. One goroutine reads what the node says, another one runs the queries.
type child struct {
	queries chan running

	writing sync.Mutex
	out     *bufio.Writer

	mu      sync.Mutex
	ledgers map[string]*reader // but the one that is in use
	cancel  context.CancelFunc // of the query that runs; nil: none does
}

type running struct {
	childQuery
	ctx context.Context
}

func serveQueries(socket *os.File, memory string) error {
	bytes, err := strconv.ParseInt(memory, 10, 64)
	if err != nil {
		return err
	}
	if err := confine(bytes); err != nil {
		return err
	}
	c := &child{queries: make(chan running), out: bufio.NewWriterSize(socket, 64<<10), ledgers: make(map[string]*reader)}
	go c.work()
	for in := bufio.NewReaderSize(socket, 64<<10); ; {
		kind, body, err := readFrame(in, childRoom)
		switch {
		case err == io.EOF:
			return nil // the node has ended, or does not need this process any more
		case err != nil:
			return err
		}
		switch kind {
		case frameQuery:
			q, err := decodeChildQuery(body)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(context.Background())
			c.mu.Lock()
			c.cancel = cancel
			c.mu.Unlock()
			c.queries <- running{q, ctx}
		case frameCancel:
			c.mu.Lock()
			if c.cancel != nil {
				c.cancel()
			}
			c.mu.Unlock()
		case frameForget:
			c.forget(string(body))
			if err := c.say(frameForgot, nil, true); err != nil {
				return err
			}
		default:
			return errWire
		}
	}
}

// say writes a frame; what was not flushed is sent with the next one, or when there is much of it.
func (c *child) say(kind byte, body []byte, flush bool) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	err := writeFrame(c.out, kind, body)
	if err == nil && flush {
		err = c.out.Flush()
	}
	return err
}

// work runs one query after the other.
func (c *child) work() {
	for q := range c.queries {
		end, err := c.query(q.ctx, q.childQuery)
		body := end.encode(err)
		c.mu.Lock()
		c.cancel()
		c.cancel = nil
		c.mu.Unlock()
		if c.say(frameEnd, body, true) != nil {
			os.Exit(0) // the node is gone
		}
	}
}

func (c *child) query(ctx context.Context, q childQuery) (end queryEnd, err error) {
	fail := failures{path: q.path, file: filepath.Base(q.path), reading: true, corrupt: func(error) {}} // the node is told by the code
	if q.evict != "" {
		c.forget(q.evict)
	}
	r, err := c.take(ctx, q)
	if err != nil {
		return end, fail.typed(err)
	}
	sink := &frameSink{say: c.say, limiter: limiter{maxRows: q.maxRows, maxBytes: q.maxBytes}}
	end.seq, err = r.read(ctx, q.sql, q.args, func() error { return nil }, sink)
	end.truncated = sink.truncated
	c.mu.Lock()
	c.ledgers[q.path] = r
	c.mu.Unlock()
	return end, readError(fail, err)
}

// take returns the connection to a ledger.
func (c *child) take(ctx context.Context, q childQuery) (*reader, error) {
	c.mu.Lock()
	r := c.ledgers[q.path]
	delete(c.ledgers, q.path)
	c.mu.Unlock()
	if r != nil {
		return r, nil
	}
	return newReader(ctx, Config{Path: q.path, Limits: Limits{MaxValueBytes: q.maxValue, CacheKiB: q.cacheKiB}})
}

func (c *child) forget(path string) {
	c.mu.Lock()
	r := c.ledgers[path]
	delete(c.ledgers, path)
	c.mu.Unlock()
	if r != nil {
		r.close()
	}
}

// frameSink sends rows to the node.
type frameSink struct {
	limiter
	say func(kind byte, body []byte, flush bool) error
	buf []byte
	err error
}

func (s *frameSink) columns(names []string) {
	s.err = s.say(frameColumns, appendStrings(nil, names), false)
}

func (s *frameSink) row(row []driver.Value) (more bool, err error) {
	if more, err = s.takes(row); !more || err != nil {
		return false, err
	}
	if s.err != nil {
		return false, s.err
	}
	if s.buf, err = appendRow(s.buf[:0], row); err != nil {
		return false, err
	}
	return true, s.say(frameRow, s.buf, false)
}
