package actors

import (
	"path/filepath"

	"github.com/leasehold/leasehold/actors/machine"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/mailbox"
)

// How a tenant ends: everyone who waits is answered, whatever ends it.

// Refuse answers what comes when the actor has ended.
func (t *tenant) Refuse(_ *mailbox.Self, msg any) {
	switch m := msg.(type) {
	case await, *order:
		t.take(m)
	case statusOf:
		select { // who panicked may have answered before
		case m.reply <- t.status():
		default:
		}
	}
}

// Panicked ends the tenant: its state cannot be trusted. The lease runs out by itself.
func (t *tenant) Panicked(*mailbox.Self, any, any, []byte) bool {
	failed := &messages.Error{Code: messages.CodeInternal, Key: t.key.String(), Message: "the tenant actor failed"}
	t.broken = true
	t.step(machine.Abort{Err: failed})
	for name, who := range t.asked { // whom the panic has kept from his answer
		delete(t.asked, name)
		who.answer(t, machine.Answer{To: name, Err: messages.Unknown(t.key, t.granted.Epoch, failed)})
	}
	t.emit(messages.Lifecycle{Kind: messages.LifecyclePanic, Code: messages.CodeInternal})
	return false
}

func (t *tenant) Stopping(*mailbox.Self) {
	t.act.closeSlot()
	t.calm()
	t.leaveFiles()
	if t.granted.Epoch > 0 {
		t.emit(messages.Lifecycle{Kind: messages.LifecycleClosed})
	}
}

// leaveFiles decides what becomes of the local files: they are deleted only if nothing in them can be missed.
func (t *tenant) leaveFiles() {
	n, epoch := t.node, t.granted.Epoch
	f := localFolder{key: t.key, epoch: epoch, path: filepath.Dir(n.localFile(t.key, epoch))}
	var err error
	switch {
	case t.state.Forgotten:
		err = n.dropLocal(t.key)
	case epoch == 0 || t.prepared.Load() != epoch: // there are none of this attempt
	case t.state.Served && (t.broken || n.aborted.Load()):
		// As a killed process leaves them; the next open, or the sweep, looks at them.
		if t.unsaved() {
			n.log(t.key).Warn("the local files hold writes that no snapshot has, and are kept", "epoch", epoch, "path", f.path)
		}
	case t.state.Served && t.unsaved() && !t.state.Abandoned:
		n.setAside(f)
	default:
		err = n.dropEpoch(t.key, epoch)
	}
	if err != nil {
		n.log(t.key).Warn("local files could not be deleted; the sweep tries again", "epoch", epoch, "error", err)
	}
}

// unsaved reports whether the ledger holds commits that are in no snapshot.
func (t *tenant) unsaved() bool {
	return t.handle != nil && t.handle.Version() > max(t.state.Saved, t.state.Landed)
}
