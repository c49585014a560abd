package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"
)

// The headers and codes of JetStream that this package speaks. It speaks the wire protocol itself,
// because it sends hundreds of requests in one round trip and must never be served by a direct get.
const (
	hdrExpectedSeq     = "Nats-Expected-Last-Subject-Sequence"
	hdrExpectedSubject = "Nats-Expected-Last-Subject-Sequence-Subject"

	codeNoMessage     = 10037
	codeNoSequence    = 10043 // nothing to delete
	codeDeleteFailed  = 10057
	codeWrongSequence = 10071 // the last sequence is another one
	codeInProcess     = 10164 // another write of the subject is not yet committed
)

// storageCodes say that the server has no room, or that its disk failed.
var storageCodes = map[int]bool{10002: true, 10023: true, 10047: true, 10053: true, 10077: true}

// A request is sent again when there was no answer in firstTry, or four times what answers take at the moment if that is
// more; then twice as long, up to lastTry. All requests may be sent again: see the package comment.
const (
	firstTry = 150 * time.Millisecond
	lastTry  = 2 * time.Second
)

// link is a connection, seen as one that sends requests and gets replies.
type link struct {
	nc         *natsgo.Conn
	owned      bool
	api        string // "$JS.API"
	replies    *replies
	timeout    time.Duration
	mustExist  bool // of streams
	roundTrips atomic.Int64
	answers    latency
	now        func() time.Time // of the latency; not Config.Now, by which a put judges itself
	closed     context.Context  // ends with close
	end        context.CancelFunc
	watching   sync.WaitGroup

	mu      sync.Mutex
	session context.Context // ends when the connection breaks: what was asked on it is not answered any more
	broken  context.CancelFunc
}

func newLink(ctx context.Context, cfg Config) (*link, error) {
	nc, owned, err := cfg.connect(ctx)
	if err != nil {
		return nil, err
	}
	api := "$JS.API"
	if cfg.Domain != "" {
		api = "$JS." + cfg.Domain + ".API"
	}
	l := &link{nc: nc, owned: owned, api: api, timeout: cfg.Timeout, mustExist: cfg.MustExist, now: time.Now}
	if l.replies, err = newReplies(nc); err != nil {
		if owned {
			nc.Close()
		}
		return nil, err
	}
	l.closed, l.end = context.WithCancel(context.Background())
	l.session, l.broken = context.WithCancel(context.Background())
	l.watching.Go(l.watch)
	return l, nil
}

func (l *link) close() {
	l.end()
	l.watching.Wait()
	l.replies.close()
	if l.owned {
		l.nc.Close() // twice is fine
	}
}

// watch begins a new session whenever the connection breaks.
func (l *link) watch() {
	changes := l.nc.StatusChanged(natsgo.RECONNECTING, natsgo.DISCONNECTED)
	defer l.nc.RemoveStatusListener(changes)
	for {
		select {
		case _, ok := <-changes:
			l.mu.Lock()
			l.broken()
			l.session, l.broken = context.WithCancel(context.Background())
			l.mu.Unlock()
			if !ok { // the connection is closed for good, by whoever owns it
				return
			}
		case <-l.closed.Done():
			return
		}
	}
}

func (l *link) currentSession() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session
}

// begin returns a context that ends after the timeout and with the link, or an error if there is no
// point in starting.
func (l *link) begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if l.closed.Err() != nil || ctx.Err() != nil {
		return nil, nil, l.gaveUp(ctx, nil)
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	stop := context.AfterFunc(l.closed, cancel)
	return ctx, func() { stop(); cancel() }, nil
}

// exchange sends requests together and waits for their replies: one round trip, however many there are. It gives
// up on those that are missing when none has come for the time of try. A reply that did not come is nil.
// The error is that of the connection; replies that came before are there.
func (l *link) exchange(ctx context.Context, requests []*natsgo.Msg, try time.Duration) ([]*natsgo.Msg, error) {
	l.roundTrips.Add(1)
	begun, answered := l.now(), false
	defer func() {
		// What was never answered took at least so long; what was given up, nobody knows.
		if took := l.now().Sub(begun); !answered && took >= try {
			l.answers.took(took)
		}
	}()
	heard := func() {
		if !answered {
			answered = true
			l.answers.took(l.now().Sub(begun))
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.currentSession(), cancel)()
	if len(requests) == 1 {
		ctx, cancel := context.WithTimeout(ctx, try)
		defer cancel()
		reply, err := l.nc.RequestMsgWithContext(ctx, requests[0])
		if reply != nil {
			heard()
		}
		if errors.Is(err, natsgo.ErrNoResponders) || ctx.Err() != nil {
			err = nil
		}
		return []*natsgo.Msg{reply}, err
	}
	replies := make([]*natsgo.Msg, len(requests))
	inboxes, arrived, over := l.replies.expect(len(requests))
	defer over()
	for i, r := range requests {
		r.Reply = inboxes[i]
		if err := l.nc.PublishMsg(r); err != nil {
			return replies, err
		}
	}
	// A server that is slow, but answers, is not asked again: that would make it slower.
	idle := time.NewTimer(try)
	defer idle.Stop()
	for missing := len(requests); missing > 0; {
		select {
		case r := <-arrived:
			heard()
			replies[r.i] = r.msg
			missing--
			idle.Reset(try)
		case <-idle.C:
			return replies, nil
		case <-ctx.Done():
			return replies, nil
		}
	}
	return replies, nil
}

// call sends one request until it is answered or ctx ends. It is for requests that may be sent twice.
func (l *link) call(ctx context.Context, request *natsgo.Msg, answer func(*natsgo.Msg) (done bool, err error)) error {
	return l.callAll(ctx, l.patience(), []*natsgo.Msg{request}, func(_ int, m *natsgo.Msg) (bool, error) { return answer(m) })
}

// callAll sends requests together, and those again that answer does not take, until all are done or ctx
// ends. An error of one that is done ends the call.
func (l *link) callAll(ctx context.Context, p *patience, requests []*natsgo.Msg, answer func(i int, m *natsgo.Msg) (done bool, err error)) error {
	open := make([]int, len(requests))
	for i := range open {
		open[i] = i
	}
	var last error
	for len(open) > 0 {
		send := make([]*natsgo.Msg, len(open))
		for j, i := range open {
			send[j] = requests[i]
		}
		replies, err := l.exchange(ctx, send, p.try)
		if err != nil {
			last = err
		}
		left := open[:0:0]
		for j, i := range open {
			done, err := answer(i, replies[j])
			switch {
			case done && err != nil:
				return err
			case !done:
				left = append(left, i)
				if err != nil {
					last = err
				}
			}
		}
		if open = left; len(open) > 0 && p.wait(ctx) != nil {
			return l.gaveUp(ctx, last)
		}
	}
	return nil
}

func (l *link) gaveUp(ctx context.Context, last error) error {
	if l.closed.Err() != nil {
		return errClosed()
	}
	return contextError(ctx, last)
}

// patience says how long to wait for an answer, and how long before the next try.
type patience struct{ try, pause time.Duration }

// patience is that for a request without a body to speak of.
func (l *link) patience() *patience {
	return &patience{try: min(max(firstTry, 4*l.answers.smoothed()), lastTry), pause: time.Millisecond}
}

// bulk is the patience for megabytes on a slow line: sending them again too early would make it slower.
func bulk() *patience { return &patience{try: 2 * lastTry, pause: time.Millisecond} }

// wait waits for a short and random time, so that many who contend all get their turn.
func (p *patience) wait(ctx context.Context) error {
	d := p.pause/2 + rand.N(p.pause)
	p.pause, p.try = min(2*p.pause, 50*time.Millisecond), min(2*p.try, max(p.try, lastTry))
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// apiError is how JetStream reports a failure.
type apiError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *apiError) Error() string { return fmt.Sprintf("%s (%d)", e.Description, e.ErrCode) }

var errNoAnswer = errors.New("no answer")

// isReply reports whether a message is an answer of JetStream and not a note that nobody listens.
func isReply(m *natsgo.Msg) bool { return m != nil && len(m.Data) > 0 }

// ack is the answer to a publish.
type ack struct {
	Seq uint64    `json:"seq"`
	Err *apiError `json:"error"`
}

func parseAck(m *natsgo.Msg) (ack, error) {
	var a ack
	if !isReply(m) {
		return a, errNoAnswer
	}
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return a, err
	}
	if a.Err == nil && a.Seq == 0 {
		return a, errNoAnswer
	}
	return a, nil
}

// stored is a message of a stream, as its leader answers it.
type stored struct {
	Subject string    `json:"subject"`
	Seq     uint64    `json:"seq"`
	Header  []byte    `json:"hdrs"`
	Data    []byte    `json:"data"`
	Time    time.Time `json:"time"`
}

// parseStored reads the answer to a get: nil for a message that is not there.
func parseStored(m *natsgo.Msg) (*stored, error) {
	if !isReply(m) {
		return nil, errNoAnswer
	}
	var r struct {
		Message *stored   `json:"message"`
		Err     *apiError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &r); err != nil {
		return nil, err
	}
	switch {
	case r.Err != nil && r.Err.ErrCode == codeNoMessage:
		return nil, nil
	case r.Err != nil:
		return nil, r.Err
	case r.Message == nil:
		return nil, errNoAnswer
	}
	return r.Message, nil
}

// get asks the leader of a stream for a message. fields are those of the request, as JSON.
func (l *link) get(stream, fields string) *natsgo.Msg {
	return &natsgo.Msg{Subject: l.api + ".STREAM.MSG.GET." + stream, Data: []byte(fields)}
}

func getSeq(seq uint64) string      { return fmt.Sprintf(`{"seq":%d}`, seq) }
func getLast(subject string) string { return fmt.Sprintf(`{"last_by_subj":%q}`, subject) }
func getNext(subject string, from uint64) string {
	return fmt.Sprintf(`{"seq":%d,"next_by_subj":%q}`, from, subject)
}

// compareAndSet makes a message that the stream takes only if seq is the last sequence on filter (0: there is none).
func compareAndSet(subject, filter string, seq uint64, data []byte) *natsgo.Msg {
	return &natsgo.Msg{Subject: subject, Data: data, Header: natsgo.Header{
		hdrExpectedSeq:     {strconv.FormatUint(seq, 10)},
		hdrExpectedSubject: {filter},
	}}
}
