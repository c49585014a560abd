package nats

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// Objects is a durable store on a JetStream stream. It is safe for concurrent use, and for use together
// with other Objects of the same cluster, in this and in other processes.
type Objects struct {
	link      *link
	names     objectNames
	replicas  int
	chunk     int
	orphanAge time.Duration
	now       func() time.Time

	confirms atomic.Uint64
	sweeper  sync.WaitGroup
}

var _ stores.DurableStore = (*Objects)(nil)

// headroom is what a message may have beside the bytes of the object: the manifest, and the headers.
const headroom = 16 << 10

// OpenObjects opens the durable store of a cluster, and creates its stream if there is none. It also
// begins to sweep, see Sweep: at once, and eight times in each OrphanAge. The errors are those of OpenLeases.
func OpenObjects(ctx context.Context, cfg Config) (*Objects, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	l, err := newLink(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s := &Objects{link: l, names: newObjectNames(cfg.Cluster), replicas: cfg.Replicas, chunk: cfg.ChunkBytes, orphanAge: cfg.OrphanAge, now: cfg.Now}
	most := int(l.nc.MaxPayload()) - headroom
	if s.chunk == 0 {
		s.chunk = min(defaultChunk, most)
	}
	if s.chunk > most || s.chunk < 1 {
		l.close()
		return nil, invalid("a chunk does not fit into a message of this server")
	}
	if err := l.ensureStream(ctx, objectStream(s.names, cfg), checkObjectStream); err != nil {
		l.close()
		return nil, err
	}
	s.sweeper.Go(s.keepSweeping)
	return s, nil
}

// String says which stream it is.
func (s *Objects) String() string { return "NATS stream " + s.names.stream }

// Close closes the store, and its connection unless it was Config.Conn. Operations after it, and those that
// wait, are CodeClosed. Closing twice is fine.
func (s *Objects) Close() error {
	s.link.close()
	s.sweeper.Wait()
	return nil
}

// objectNames are the subjects of a stream of objects.
type objectNames struct{ stream, prefix string }

func newObjectNames(cluster string) objectNames {
	return objectNames{stream: "leasehold-" + cluster + "-objects", prefix: "leasehold." + cluster + ".objects."}
}

// encode writes a key as the tokens of a subject: a slash becomes a dot, and a dot, which a key may
// hold, an equals sign, which it may not.
func encode(key string) string { return strings.NewReplacer("/", ".", ".", "=").Replace(key) }

func decode(tokens string) string { return strings.NewReplacer(".", "/", "=", ".").Replace(tokens) }

func (n objectNames) manifest(key string) string { return n.prefix + "m." + encode(key) }
func (n objectNames) confirms() string           { return n.prefix + "confirm." }

// chunks is where the chunks of one put begin; the number of one follows.
func (n objectNames) chunks(key, put string) string {
	return n.prefix + "c." + encode(key) + "." + put + "."
}

// below is the filter of everything of a kind ("m", "c") below a prefix, as far as that is whole segments.
func (n objectNames) below(kind, prefix string) string {
	whole := prefix[:strings.LastIndexByte(prefix, '/')+1]
	return n.prefix + kind + "." + encode(whole) + ">"
}

// manifest is what makes an object visible. The bytes of a small object follow it in the same message.
type manifest struct {
	Version int    `json:"v"`
	Key     string `json:"key"`
	Put     string `json:"put"` // the put that made it: random
	Size    int    `json:"size"`
	SHA256  string `json:"sha256"`
	Chunks  int    `json:"chunks"` // 0: the bytes are here
	Chunk   int    `json:"chunk"`  // bytes of each but the last

	seq    uint64
	inline []byte
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func (m manifest) encode(inline []byte) ([]byte, error) {
	head, err := json.Marshal(m)
	if err != nil {
		return nil, &messages.Error{Code: messages.CodeInternal, Message: "encode a manifest", Err: err}
	}
	return append(append(head, '\n'), inline...), nil
}

func parseManifest(key string, s *stored) (manifest, error) {
	var m manifest
	head, inline, _ := bytes.Cut(s.Data, []byte("\n"))
	if json.Unmarshal(head, &m) != nil || m.Version != version || m.Key != key || m.Size < 0 || m.Chunks < 0 ||
		(m.Chunks == 0 && len(inline) != m.Size) || (m.Chunks > 0 && (m.Chunk < 1 || (m.Size+m.Chunk-1)/m.Chunk != m.Chunks)) {
		return m, corrupt(key, "the manifest of the object is damaged")
	}
	m.seq, m.inline = s.Seq, inline
	return m, nil
}

// step returns a context for one step of an operation: what is large may take long as a whole.
func (s *Objects) step(ctx context.Context) (context.Context, context.CancelFunc, error) {
	return s.link.begin(ctx)
}

// load returns the newest message with a subject or filter; nil: there is none that this server knows of.
func (s *Objects) load(ctx context.Context, subject string) (*stored, error) {
	ctx, cancel, err := s.step(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	found, err := s.loadAll(ctx, []string{subject})
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// loadManifest returns the manifest of an object; nil: the object is absent, whoever was asked.
func (s *Objects) loadManifest(ctx context.Context, key string) (*manifest, error) {
	for {
		found, err := s.load(ctx, s.names.manifest(key))
		if err != nil {
			return nil, err
		}
		if found != nil {
			m, err := parseManifest(key, found)
			return &m, err
		}
		if ok, err := s.confirm(ctx, s.names.manifest(key), 0); ok || err != nil {
			return nil, err
		}
	}
}

// confirm proves that seq is the last sequence on a filter, by a write that the stream takes only then:
// a server that does not know yet that it leads no more cannot commit it.
func (s *Objects) confirm(ctx context.Context, filter string, seq uint64) (ok bool, err error) {
	if s.replicas == 1 {
		return true, nil // nobody else could know better
	}
	ctx, cancel, err := s.step(ctx)
	if err != nil {
		return false, err
	}
	defer cancel()
	if s.confirms.Add(1)%256 == 0 {
		if err := s.purge(ctx, []string{s.names.confirms() + ">"}); err != nil {
			return false, err
		}
	}
	request := compareAndSet(s.names.confirms()+newPutID(), filter, seq, nil)
	err = s.link.call(ctx, request, func(m *natsMsg) (bool, error) {
		a, err := parseAck(m)
		switch {
		case err != nil:
			// Lost. To send it again under its own name could be refused because it was stored: take another.
			request.Subject = s.names.confirms() + newPutID()
			return false, err
		case a.Err == nil:
			ok = true
			return true, nil
		case a.Err.ErrCode == codeWrongSequence:
			return true, nil
		case storageCodes[a.Err.ErrCode]:
			return true, noRoom(a.Err)
		}
		return false, a.Err
	})
	return ok, err
}

// purge deletes everything with the given filters.
func (s *Objects) purge(ctx context.Context, filters []string) error {
	requests := make([]*natsMsg, len(filters))
	for i, f := range filters {
		requests[i] = &natsMsg{Subject: s.link.api + ".STREAM.PURGE." + s.names.stream, Data: []byte(`{"filter":` + strconv.Quote(f) + `}`)}
	}
	return s.link.callAll(ctx, s.link.patience(), requests, func(_ int, m *natsMsg) (bool, error) {
		_, err := parseInfo(m)
		return err == nil, err
	})
}
