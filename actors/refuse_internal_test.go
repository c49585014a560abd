package actors

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

// A handler that panics after it has answered is refused too; its caller has left with the first answer,
// or without any. A second answer must not block the actor.
func TestAPanicAfterTheAnswerDoesNotBlockTheActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tn := newTenant(&Node{cfg: Config{}.withDefaults()}, &activation{})
		waiting, reply, taken := make(chan found, 1), make(chan error, 1), make(chan snapshotDone, 1)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 2 {
				tn.openers, tn.takes = []find{{reply: waiting}}, []take{{reply: taken}}
				tn.releasing = &release{reply: reply}
				tn.Refuse(nil, await{find{reply: waiting}})
				tn.Refuse(nil, handoff{reply: reply})
				tn.answerAll(messages.ErrInternal)
			}
		}()
		<-done
		require.ErrorIs(t, (<-waiting).err, messages.ErrInternal)
		require.ErrorIs(t, <-reply, messages.ErrInternal)
		require.ErrorIs(t, (<-taken).err, messages.ErrInternal)
	})
}
