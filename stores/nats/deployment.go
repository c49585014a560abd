package nats

import (
	"context"

	natsgo "github.com/nats-io/nats.go"

	"github.com/leasehold/leasehold/stores"
)

// The identity of the deployment is the first message of a subject of its own: published on the condition that there is
// none, so that of any number of contenders one is stored, and what comes later has no part in it.

func (n names) deployment() string { return n.prefix + "deployment" }

// Deployment implements stores.DeploymentKeeper.
func (s *Leases) Deployment(ctx context.Context) (string, error) {
	ctx, cancel, err := s.link.begin(ctx)
	if err != nil {
		return "", err
	}
	defer cancel()
	subject := s.names.deployment()
	for p := s.link.patience(); ; {
		identity, err := s.loadDeployment(ctx)
		if err != nil || identity != "" || s.replicas == 1 {
			return identity, err
		}
		// A server that does not know yet that it leads no more may not know of the message.
		absent := false
		err = s.link.call(ctx, compareAndSet(s.names.confirm(), subject, 0, nil), func(m *natsgo.Msg) (bool, error) {
			a, err := parseAck(m)
			absent = err == nil && a.Err == nil
			return settledAck(a, err)
		})
		if err != nil || absent {
			return "", err
		}
		if p.wait(ctx) != nil {
			return "", s.link.gaveUp(ctx, nil)
		}
	}
}

// SetDeployment implements stores.DeploymentKeeper.
func (s *Leases) SetDeployment(ctx context.Context, identity string) (string, error) {
	if err := stores.ValidateDeployment(identity); err != nil {
		return "", err
	}
	ctx, cancel, err := s.link.begin(ctx)
	if err != nil {
		return "", err
	}
	defer cancel()
	subject := s.names.deployment()
	for p := s.link.patience(); ; {
		// The same bytes again, if there was no answer: at most one copy is stored, and the first one counts.
		err := s.link.call(ctx, compareAndSet(subject, subject, 0, []byte(identity)), func(m *natsgo.Msg) (bool, error) {
			return settledAck(parseAck(m))
		})
		if err != nil {
			return "", err
		}
		stored, err := s.loadDeployment(ctx)
		if err != nil || stored != "" {
			return stored, err
		}
		if p.wait(ctx) != nil { // asked of a server that is behind
			return "", s.link.gaveUp(ctx, nil)
		}
	}
}

// settledAck says whether an acknowledgement tells what the stream holds: what was sent, or something before it.
func settledAck(a ack, err error) (done bool, why error) {
	switch {
	case err != nil:
		return false, err
	case a.Err == nil || a.Err.ErrCode == codeWrongSequence:
		return true, nil
	case storageCodes[a.Err.ErrCode]:
		return true, noRoom(a.Err)
	}
	return false, a.Err
}

func (s *Leases) loadDeployment(ctx context.Context) (identity string, err error) {
	subject := s.names.deployment()
	var first *stored
	err = s.link.call(ctx, s.link.get(s.names.stream, getNext(subject, 1)), func(m *natsgo.Msg) (bool, error) {
		var err error
		first, err = parseStored(m)
		return err == nil, err
	})
	if err != nil || first == nil {
		return "", err
	}
	header, err := natsgo.DecodeHeadersMsg(first.Header)
	if err != nil || header.Get(hdrExpectedSubject) != subject || header.Get(hdrExpectedSeq) != "0" || stores.ValidateDeployment(string(first.Data)) != nil {
		return "", corrupt(subject, "the first message is not the identity of a deployment")
	}
	return string(first.Data), nil
}
