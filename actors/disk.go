package actors

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/leasehold/leasehold/actors/machine"
	"github.com/leasehold/leasehold/internal/localfile"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/mailbox"
)

// A node whose local disk is full, or cannot be written to, takes no new tenants: an open would fail after it has
// used up an epoch. Whether that is so is decided by writing to the disk, and not by the failure of one request, which may
// have other reasons (the memory of SQLite, the disk of the durable store). Such a failure is only the occasion to try.

// diskRoom is how much must fit onto the disk for a node to take tenants: a new ledger, and enough of what comes
// after it, so that a node does not take and refuse tenants in turn.
const diskRoom = 4 << 20

// diskEvery is the pause between two tries while the disk is full.
const diskEvery = time.Second

// probeFile is written into the state root, and removed.
const probeFile = "disk.probe"

// disk is what is known of the local disk. The supervisor writes it, callers read it.
type disk struct {
	full      atomic.Pointer[messages.Error] // nil: the node takes tenants
	suspected atomic.Bool                    // a try was asked for
	fine      atomic.Int64                   // when a try last found room, by Node.sinceStart; 0: never
}

// Messages to the supervisor, and from its tries.
type (
	suspectDisk struct{}
	diskTick    struct{}
	diskProbed  struct{ err error }
)

// Full returns nil, or why this node takes no new tenants: CodeStorage, as long as its state root cannot be written to. It
// waits for nothing.
func (n *Node) Full() error {
	if e := n.disk.full.Load(); e != nil {
		return e
	}
	return nil
}

// Cramped reports whether this node serves a tenant that could not store something since the disk has been full. It
// waits for nothing.
func (n *Node) Cramped(key messages.Key) bool {
	act, ok := n.active.Load(key)
	return ok && n.Full() != nil && act.(*activation).serving.Load() && act.(*activation).cramped.Load()
}

// suspect has the disk looked at after a failure that may be its own. Where it is not, and failures go on, that is not done
// for each of them: a try writes to the disk.
func (n *Node) suspect(err error) {
	if fine := n.disk.fine.Load(); fine != 0 && n.sinceStart()-fine < int64(diskEvery) {
		return
	}
	if messages.CodeOf(err) == messages.CodeStorage && n.disk.suspected.CompareAndSwap(false, true) {
		n.supervisor.Send(suspectDisk{})
	}
}

// probeDisk writes to the state root, and returns why that failed, as CodeStorage.
func (n *Node) probeDisk(ctx context.Context) (err error) {
	path := filepath.Join(n.cfg.StateRoot, probeFile)
	defer func() {
		if removed := os.Remove(path); err == nil {
			err = removed
		}
		if err != nil {
			err = &messages.Error{Code: messages.CodeStorage, RetryAfter: diskEvery, Message: localfile.Because("the node takes no tenants: its state root cannot be written to", err), Err: err}
		}
	}()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if closed := file.Close(); err == nil {
			err = closed
		}
	}()
	block := make([]byte, 64<<10)
	_, _ = rand.Read(block) // which never fails; a file system that compresses must not be let off
	for range diskRoom / len(block) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := file.Write(block); err != nil {
			return err
		}
	}
	if err := file.Sync(); err != nil { // a file system may find out only now
		return err
	}
	// To create some inodes would wear the disk, and file systems count what is left.
	if localfile.LacksInodes(path) {
		return &os.PathError{Op: "create", Path: path, Err: syscall.ENOSPC}
	}
	return nil
}

// diskWatch is the supervisor's part: one try at a time, and the opens that came while the disk was full.
type diskWatch struct {
	probing bool
	waiting []find // for the try under way
	late    []find // for the next one: the try under way had begun before they came
	again   func() // cancels the next diskTick
}

// awaitDisk lets an open wait for what a try finds: maybe there is room by now, and nobody is refused because of
// what was a while ago.
func (s *supervisor) awaitDisk(self *mailbox.Self, m find) {
	if s.disk.probing {
		s.disk.late = append(s.disk.late, m)
		return
	}
	s.disk.waiting = append(s.disk.waiting, m)
	s.look(self)
}

// look tries the disk, unless that is under way.
func (s *supervisor) look(self *mailbox.Self) {
	if s.disk.probing {
		return
	}
	s.disk.probing = true
	node := s.node
	self.Go(func(ctx context.Context) any { return diskProbed{node.probeDisk(ctx)} })
}

// looked goes on with what a try has found.
func (s *supervisor) looked(self *mailbox.Self, err error) {
	waiting, late := s.disk.waiting, s.disk.late
	s.disk.probing, s.disk.waiting, s.disk.late = false, nil, nil
	s.node.disk.suspected.Store(false)
	if err != nil {
		s.diskFull(self, messages.AsError(err))
		for _, m := range waiting {
			m.reply <- found{err: diskRefusal(err, m.key)}
		}
	} else {
		s.diskHasRoom()
		for _, m := range waiting {
			s.find(self, m)
		}
	}
	for _, m := range late {
		s.find(self, m)
	}
}

func diskRefusal(err error, key messages.Key) error {
	refusal := *messages.AsError(err)
	refusal.Key = key.String()
	return &refusal
}

func (s *supervisor) diskFull(self *mailbox.Self, why *messages.Error) {
	if s.disk.again != nil {
		s.disk.again()
	}
	s.disk.again = self.After(diskEvery, diskTick{})
	if s.node.disk.full.Swap(why) != nil {
		return
	}
	s.node.metrics.diskFull.Set(1)
	s.node.cfg.Log.Error("the local disk cannot be written to: this node takes no new tenants until that changes", "error", why)
}

func (s *supervisor) diskHasRoom() {
	s.node.disk.fine.Store(s.node.sinceStart())
	for _, act := range s.entries {
		act.cramped.Store(false)
	}
	if s.node.disk.full.Swap(nil) == nil {
		return
	}
	s.node.metrics.diskFull.Set(0)
	s.node.cfg.Log.Info("the local disk has room again: this node takes tenants")
}

// diskEnds answers the opens that wait when the supervisor ends.
func (s *supervisor) diskEnds() {
	for _, m := range append(s.disk.waiting, s.disk.late...) {
		m.reply <- found{err: machine.NodeDown()}
	}
}
