package nats

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasehold/leasehold/messages"
)

// maxMsgSize is what a lease message must be allowed to have: it is about 1 KiB at most.
const maxMsgSize = 4 << 10

// leaseStream returns the settings of a new lease bucket.
func leaseStream(n names, cfg Config) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              n.stream,
		Description:       "Leasehold: who may serve which tenant",
		Subjects:          []string{n.all()},
		Storage:           jetstream.FileStorage,
		Replicas:          cfg.Replicas,
		Retention:         jetstream.LimitsPolicy,
		Discard:           jetstream.DiscardOld, // per subject, the oldest entries of the trail go; see MaxMsgsPerSubject
		MaxMsgs:           -1,
		MaxBytes:          -1,
		MaxConsumers:      -1,
		MaxMsgsPerSubject: int64(cfg.KeepEntries),
		DenyDelete:        true,
		DenyPurge:         true,
		AllowDirect:       false, // a follower answers a direct get, with whatever it has
	}
}

// checkLeaseStream says what is wrong with the settings of a lease bucket; "": nothing.
func checkLeaseStream(have jetstream.StreamConfig) string {
	switch {
	case !have.DenyDelete || !have.DenyPurge:
		return "records can be deleted (deny_delete and deny_purge must be on)"
	case have.MaxMsgsPerSubject < 1:
		return "the audit trail is not bounded (max_msgs_per_subject)"
	case have.DiscardNewPerSubject:
		return "a record can no longer be changed when its trail is full (discard_new_per_subject)"
	case have.MaxMsgSize > 0 && have.MaxMsgSize < maxMsgSize:
		return "a record may not fit into a message (max_msg_size)"
	}
	return ""
}

// objectStream returns the settings of a new stream of objects.
func objectStream(n objectNames, cfg Config) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:                 n.stream,
		Description:          "Leasehold: the copies of the ledgers",
		Subjects:             []string{n.prefix + ">"},
		Storage:              jetstream.FileStorage,
		Replicas:             cfg.Replicas,
		Retention:            jetstream.LimitsPolicy,
		MaxMsgs:              -1,
		MaxBytes:             -1,
		MaxConsumers:         -1,
		MaxMsgsPerSubject:    1,
		Discard:              jetstream.DiscardNew,
		DiscardNewPerSubject: true, // the server itself never lets an object be overwritten
		AllowDirect:          false,
	}
}

// checkObjectStream says what is wrong with the settings of a stream of objects; "": nothing.
func checkObjectStream(have jetstream.StreamConfig) string {
	switch {
	case have.Discard != jetstream.DiscardNew || !have.DiscardNewPerSubject || have.MaxMsgsPerSubject != 1:
		return "objects can be overwritten (discard, discard_new_per_subject, max_msgs_per_subject)"
	case have.DenyDelete || have.DenyPurge:
		return "objects cannot be deleted (deny_delete, deny_purge)"
	case have.MaxMsgSize > 0:
		return "the size of messages is limited (max_msg_size)"
	}
	return ""
}

// checkStream says what is wrong with the settings of a stream of either kind.
func checkStream(want, have jetstream.StreamConfig) string {
	switch {
	case !slices.Equal(have.Subjects, want.Subjects):
		return "it has other subjects"
	case have.Storage != jetstream.FileStorage:
		return "it is in memory: a restart would lose everything"
	case have.PersistMode != jetstream.DefaultPersistMode:
		return "writes are acknowledged before they are on the disk (persist_mode)"
	case have.AllowDirect || have.MirrorDirect:
		return "direct gets are allowed: a read may be answered by a server that is behind (allow_direct)"
	case have.Retention != jetstream.LimitsPolicy:
		return "messages vanish when they are consumed (retention)"
	case have.MaxAge != 0 || have.AllowMsgTTL || have.SubjectDeleteMarkerTTL != 0:
		return "messages expire (max_age, allow_msg_ttl)"
	case have.MaxMsgs > 0 && have.Discard != jetstream.DiscardNew, have.MaxBytes > 0 && have.Discard != jetstream.DiscardNew:
		return "old records are dropped when a limit is reached (max_msgs, max_bytes)"
	case have.AllowRollup:
		return "a message can replace all others (allow_rollup_hdrs)"
	case have.Mirror != nil || len(have.Sources) > 0 || have.SubjectTransform != nil:
		return "messages come from elsewhere (mirror, sources, subject_transform)"
	case have.NoAck || have.Sealed:
		return "writes are not acknowledged, or not taken (no_ack, sealed)"
	case have.AllowMsgCounter || have.AllowMsgSchedules || have.AllowAtomicPublish || have.AllowBatchPublish:
		return "writes of other kinds are allowed (counters, schedules, batches)"
	}
	return ""
}

// ensureStream creates a stream, or checks that the one that exists keeps the promises.
func (l *link) ensureStream(ctx context.Context, want jetstream.StreamConfig, check func(jetstream.StreamConfig) string) error {
	ctx, cancel, err := l.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	body, err := json.Marshal(want)
	if err != nil {
		return &messages.Error{Code: messages.CodeInternal, Message: "encode the settings of a stream", Err: err}
	}
	have, err := l.streamInfo(ctx, want.Name, "")
	if err != nil {
		return err
	}
	if have == nil && l.mustExist {
		return &messages.Error{Code: messages.CodeNotFound, Object: want.Name, Message: "the NATS servers have no such stream"}
	}
	// A server that answers may learn later than another one that the stream is there now.
	for p := l.patience(); have == nil; {
		// Of several that create it at once one does, with these settings; the others find it there.
		create := &natsgo.Msg{Subject: l.api + ".STREAM.CREATE." + want.Name, Data: body}
		if err := l.call(ctx, create, func(m *natsgo.Msg) (bool, error) {
			_, err := parseInfo(m)
			return err == nil || isRefusal(err), err
		}); err != nil && !isCode(err, codeStreamExists) {
			return openError(want.Name, err)
		}
		if have, err = l.streamInfo(ctx, want.Name, ""); err != nil {
			return err
		}
		if have == nil && p.wait(ctx) != nil {
			return l.gaveUp(ctx, openError(want.Name, errNoAnswer))
		}
	}
	why := checkStream(want, have.Config)
	if why == "" {
		why = check(have.Config)
	}
	if why != "" {
		return corrupt(want.Name, why)
	}
	if have.Config.Replicas != want.Replicas {
		return &messages.Error{Code: messages.CodeInvalidArgument, Object: want.Name,
			Message: fmt.Sprintf("the stream has %d replicas, not %d", have.Config.Replicas, want.Replicas)}
	}
	return nil
}

// info is what JetStream says about a stream.
type info struct {
	Config jetstream.StreamConfig `json:"config"`
	State  struct {
		LastSeq  uint64            `json:"last_seq"`
		Subjects map[string]uint64 `json:"subjects"`
	} `json:"state"`
	Time  time.Time `json:"ts"` // by the leader's clock
	Total int       `json:"total"`
	Err   *apiError `json:"error"`
}

const (
	codeStreamMissing = 10059
	codeStreamExists  = 10058
)

func parseInfo(m *natsgo.Msg) (*info, error) {
	if !isReply(m) {
		return nil, errNoAnswer
	}
	var i info
	if err := json.Unmarshal(m.Data, &i); err != nil {
		return nil, err
	}
	if i.Err != nil {
		return nil, i.Err
	}
	return &i, nil
}

// streamInfo asks the leader about a stream; nil: there is none. With a filter it also says which
// subjects have messages.
func (l *link) streamInfo(ctx context.Context, stream, filter string) (*info, error) {
	var found *info
	for {
		request := struct {
			Filter string `json:"subjects_filter,omitempty"`
			Offset int    `json:"offset,omitempty"`
		}{Filter: filter}
		if found != nil {
			request.Offset = len(found.State.Subjects)
		}
		body, err := json.Marshal(request)
		if err != nil {
			return nil, &messages.Error{Code: messages.CodeInternal, Message: "encode a request", Err: err}
		}
		var page *info
		err = l.call(ctx, &natsgo.Msg{Subject: l.api + ".STREAM.INFO." + stream, Data: body}, func(m *natsgo.Msg) (bool, error) {
			var err error
			page, err = parseInfo(m)
			if isCode(err, codeStreamMissing) {
				return true, nil
			}
			return err == nil, err
		})
		if err != nil || page == nil {
			return nil, err
		}
		if found == nil {
			found = page
		} else {
			for subject, n := range page.State.Subjects {
				found.State.Subjects[subject] = n
			}
		}
		if len(found.State.Subjects) >= page.Total || len(page.State.Subjects) == 0 {
			return found, nil
		}
	}
}
