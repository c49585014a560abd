package nats_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/nats"
	"github.com/leasehold/leasehold/stores/storetest"
)

func openObjects(t testing.TB, cfg nats.Config) *nats.Objects {
	t.Helper()
	s, err := nats.OpenObjects(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func noise(size int) []byte {
	data := make([]byte, size)
	_, _ = rand.Read(data) // never fails
	return data
}

// chunksOf returns how many chunks lie in the stream, whoever they belong to.
func chunksOf(t *testing.T, cfg nats.Config) int {
	t.Helper()
	return len(subjectsOf(t, cfg, "c.>"))
}

func subjectsOf(t *testing.T, cfg nats.Config, filter string) []string {
	t.Helper()
	js, err := jetstream.New(dial(t, cfg.URL))
	require.NoError(t, err)
	s, err := js.Stream(t.Context(), "leasehold-"+cfg.Cluster+"-objects")
	require.NoError(t, err)
	info, err := s.Info(t.Context(), jetstream.WithSubjectFilter("leasehold."+cfg.Cluster+".objects."+filter))
	require.NoError(t, err)
	var subjects []string
	for subject := range info.State.Subjects {
		subjects = append(subjects, subject)
	}
	return subjects
}

func TestF_Conforms(t *testing.T) {
	on(t, func(t *testing.T, k kind) {
		storetest.DurableStore(t, openObjects(t, k.config(t)))
	})
	t.Run("many_chunks", func(t *testing.T) {
		cfg := kinds[0].config(t)
		cfg.ChunkBytes = 9973
		storetest.DurableStore(t, openObjects(t, cfg))
	})
}

// The suite can fail: a store that overwrites fails the checks that are about that.
func TestF_TheSuiteCanFail(t *testing.T) {
	failures := storetest.CheckDurable(t.Context(), storetest.OverwritingPut(openObjects(t, kinds[0].config(t))))
	require.NotEmpty(t, failures)
	require.Equal(t, "F1", failures[0].Check)
}

func TestF3_AnImageOf30MB(t *testing.T) {
	on(t, func(t *testing.T, k kind) {
		cfg := k.config(t)
		store, body := openObjects(t, cfg), noise(30<<20+7)
		began := time.Now()
		created, err := store.PutIfAbsent(t.Context(), "a/image", body)
		put := time.Since(began)
		require.NoError(t, err)
		require.True(t, created)
		began = time.Now()
		got, ok, err := openObjects(t, cfg).Get(t.Context(), "a/image", 1<<30)
		require.NoError(t, err)
		require.True(t, ok)
		t.Logf("put %v, get %v", put, time.Since(began))
		require.True(t, string(got) == string(body))
		n, err := store.DeletePrefix(t.Context(), "a/")
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Zero(t, chunksOf(t, cfg), "deleted with its chunks")
	})
}

// A put that is cut off in the middle leaves nothing that anybody sees; what it left is swept when it is old, and
// what belongs to an object is not.
func TestF_AHalfWrittenObjectIsNeverVisible(t *testing.T) {
	on(t, func(t *testing.T, k kind) {
		p, cfg := behind(t, k)
		cfg.ChunkBytes, cfg.Timeout = 1000, time.Second
		store, body := openObjects(t, cfg), noise(50_000)
		_, err := store.PutIfAbsent(t.Context(), "a/whole", body)
		require.NoError(t, err)
		require.Equal(t, 50, chunksOf(t, k.config(t)))

		// The caller gives up when the answer to the first chunks is lost.
		ctx, cancel := context.WithCancel(t.Context())
		lost := p.loseAnswerTo(".objects.c.a.half.")
		done := make(chan struct{})
		go func() {
			defer close(done)
			select {
			case <-lost:
			case <-t.Context().Done():
			}
			cancel()
		}()
		_, err = store.PutIfAbsent(ctx, "a/half", body)
		<-done
		require.ErrorIs(t, err, messages.ErrUnavailable)

		fresh := openObjects(t, k.config(t))
		left := chunksOf(t, k.config(t)) - 50
		require.Positive(t, left)
		require.Less(t, left, 50)
		_, ok, err := fresh.Get(t.Context(), "a/half", 1<<30)
		require.NoError(t, err)
		require.False(t, ok)
		keys, err := fresh.List(t.Context(), "")
		require.NoError(t, err)
		require.Equal(t, []string{"a/whole"}, keys)

		swept, err := fresh.Sweep(t.Context())
		require.NoError(t, err)
		require.Zero(t, swept, "it may still go on")
		swept, err = fresh.SweepOlder(t.Context(), 0)
		require.NoError(t, err)
		require.Equal(t, 1, swept)
		require.Equal(t, 50, chunksOf(t, k.config(t)))
		got, ok, err := fresh.Get(t.Context(), "a/whole", 1<<30)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, body, got)
		created, err := fresh.PutIfAbsent(t.Context(), "a/half", body)
		require.NoError(t, err)
		require.True(t, created)
	})
}

// A put that took so long that its chunks may have been swept gives up before its manifest.
func TestF_ASlowPutGivesUp(t *testing.T) {
	cfg := kinds[0].config(t)
	clock := storetest.NewTrippingClock(time.Now)
	cfg.ChunkBytes, cfg.OrphanAge, cfg.Now = 1000, time.Hour, clock.Now
	store := openObjects(t, cfg)
	clock.JumpAt(2, 31*time.Minute)
	_, err := store.PutIfAbsent(t.Context(), "a", noise(5000))
	require.ErrorIs(t, err, messages.ErrUnavailable)
	_, ok, err := store.Get(t.Context(), "a", 1<<30)
	require.NoError(t, err)
	require.False(t, ok)
}

// Damage is found and named, and can be deleted.
func TestS5_ADamagedObjectIsNamed(t *testing.T) {
	cfg := kinds[0].config(t)
	cfg.ChunkBytes = 1000
	store := openObjects(t, cfg)
	nc := dial(t, cfg.URL)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), "leasehold-"+cfg.Cluster+"-objects")
	require.NoError(t, err)
	prefix := "leasehold." + cfg.Cluster + ".objects."
	for name, damage := range map[string]func(key string){
		"a_chunk_is_gone": func(key string) {
			require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject(chunk(t, cfg, key, "3"))))
		},
		"a_chunk_has_other_bytes": func(key string) {
			subject := chunk(t, cfg, key, "3")
			require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject(subject)))
			_, err := js.Publish(t.Context(), subject, noise(1000))
			require.NoError(t, err)
		},
		"the_manifest_is_another": func(key string) {
			require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject(prefix+"m.d."+key)))
			_, err := js.Publish(t.Context(), prefix+"m.d."+key, []byte("{}\n"))
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			created, err := store.PutIfAbsent(t.Context(), "d/"+name, noise(5000))
			require.NoError(t, err)
			require.True(t, created)
			_, err = js.Publish(t.Context(), prefix+"m.d."+name, []byte("over it"), jetstream.WithRetryAttempts(0))
			require.Error(t, err, "the server itself refuses to overwrite")
			damage(name)
			_, _, err = store.Get(t.Context(), "d/"+name, 1<<30)
			require.ErrorIs(t, err, messages.ErrCorrupt)
			require.Equal(t, "d/"+name, messages.AsError(err).Object)
			deleted, err := store.Delete(t.Context(), "d/"+name)
			require.NoError(t, err)
			require.True(t, deleted)
		})
	}
}

// The manifest of an object is a message that anybody with the permissions of a node can write.
func TestF_AnObjectOf8TB(t *testing.T) {
	cfg := kinds[0].config(t)
	storetest.Oversized(t, openObjects(t, cfg), func(t *testing.T, key string, size int64) {
		replaceManifest(t, cfg, key, func(m map[string]any) {
			m["size"], m["chunk"], m["chunks"] = size, 1<<16, size>>16
		})
	})
}

// The parts of an object are more than its manifest says, however large each of them is.
func TestF_PartsThatAreTooLarge(t *testing.T) {
	cfg := kinds[0].config(t)
	cfg.ChunkBytes = 1000
	store := openObjects(t, cfg)
	created, err := store.PutIfAbsent(t.Context(), "d/parts", noise(5000))
	require.NoError(t, err)
	require.True(t, created)
	replaceManifest(t, cfg, "d/parts", func(m map[string]any) { m["size"], m["chunk"] = 5, 1 })
	_, _, err = store.Get(t.Context(), "d/parts", 1<<20)
	require.ErrorIs(t, err, messages.ErrCorrupt)
	require.ErrorContains(t, err, "larger than its manifest says")
}

// replaceManifest has another manifest take the place of an object's.
func replaceManifest(t *testing.T, cfg nats.Config, key string, change func(map[string]any)) {
	t.Helper()
	js, err := jetstream.New(dial(t, cfg.URL))
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), "leasehold-"+cfg.Cluster+"-objects")
	require.NoError(t, err)
	subject := "leasehold." + cfg.Cluster + ".objects.m." + strings.NewReplacer("/", ".", ".", "=").Replace(key)
	old, err := stream.GetLastMsgForSubject(t.Context(), subject)
	require.NoError(t, err)
	head, _, _ := bytes.Cut(old.Data, []byte("\n"))
	var m map[string]any
	require.NoError(t, json.Unmarshal(head, &m))
	change(m)
	head, err = json.Marshal(m)
	require.NoError(t, err)
	require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject(subject)))
	_, err = js.Publish(t.Context(), subject, append(head, '\n'))
	require.NoError(t, err)
}

// chunk returns the subject of one chunk of an object.
func chunk(t *testing.T, cfg nats.Config, key, number string) string {
	t.Helper()
	for _, subject := range subjectsOf(t, cfg, "c.d."+key+".>") {
		if strings.HasSuffix(subject, "."+number) {
			return subject
		}
	}
	t.Fatalf("no chunk %s", number)
	return ""
}
