package history

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

var (
	key   = messages.Key{Org: "acme", Tenant: "t-3129611eac9be1d5994a2b216b06ed27"}
	other = messages.TenantID("t-00000000000000000000000000000000")
	start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

func at(second int) time.Time { return start.Add(time.Duration(second) * time.Second) }

// image returns an SQLite image with these rows.
func image(t *testing.T, rows []Row) []byte {
	db, err := sql.Open("sqlite3", ":memory:")
	require.NoError(t, err)
	defer db.Close()
	conn, err := db.Conn(context.Background())
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.ExecContext(context.Background(), `CREATE TABLE events (seq INTEGER PRIMARY KEY, tenant_id TEXT, subject_id TEXT, idem_key TEXT)`)
	require.NoError(t, err)
	for _, r := range rows {
		_, err = conn.ExecContext(context.Background(), `INSERT INTO events VALUES (?, ?, ?, nullif(?, ''))`, r.Seq, string(r.Tenant), r.ID, r.IdemKey)
		require.NoError(t, err)
	}
	var out []byte
	require.NoError(t, conn.Raw(func(driver any) (err error) {
		out, err = driver.(*sqlite3.SQLiteConn).Serialize("main")
		return err
	}))
	return out
}

func rows(ids ...string) []Row {
	var out []Row
	for i, id := range ids {
		out = append(out, Row{Seq: int64(i) + 1, Tenant: key.Tenant, ID: id})
	}
	return out
}

// pin and publish put the objects of an epoch.
func (h *History) pin(t *testing.T, epoch uint64, owner string, from messages.Position, when time.Time) {
	data, err := json.Marshal(messages.Base{Kind: messages.KindBase, Version: 1, Key: key.String(), Epoch: epoch, From: from, Owner: owner})
	require.NoError(t, err)
	h.Objects[key.BaseName(epoch)] = Object{Data: data, By: owner, At: when}
}

func (h *History) publish(t *testing.T, epoch, number uint64, owner string, base messages.Position, content []Row, when time.Time) {
	img := image(t, content)
	sum := sha256.Sum256(img)
	m := messages.Manifest{Kind: messages.KindManifest, Version: 1, Key: key.String(), Epoch: epoch, Snapshot: number, Size: int64(len(img)),
		SHA256: hex.EncodeToString(sum[:]), Events: int64(len(content)), LastSeq: int64(len(content)), Base: base, Owner: owner, Time: when}
	data, err := json.Marshal(m)
	require.NoError(t, err)
	h.Objects[key.ImageName(epoch, number)] = Object{Data: img, By: owner, At: when}
	h.Objects[key.ManifestName(epoch, number)] = Object{Data: data, By: owner, At: when}
	h.Lifecycle = append(h.Lifecycle, messages.Lifecycle{Kind: messages.LifecycleSnapshot, Key: key, Owner: owner, Epoch: epoch, At: when,
		Position: messages.Position{Epoch: epoch, Snapshot: number}})
}

// sound is a history without a fault: a#1 writes one event at epoch 1 and hands off; b#1 writes two
// at epoch 2, one of which no snapshot holds, and crashes; c#1 takes over at epoch 3.
func sound(t *testing.T) *History {
	h := &History{Archive: true, Objects: map[string]Object{}, Final: map[messages.Key]State{}, Clockless: map[string]time.Time{},
		Excused: map[messages.Key]map[messages.Position]bool{}, Trails: map[messages.Key][]messages.LeaseEntry{}}
	flushed := true
	event := func(kind messages.LifecycleKind, owner string, epoch uint64, second int) {
		h.Lifecycle = append(h.Lifecycle, messages.Lifecycle{Kind: kind, Key: key, Owner: owner, Epoch: epoch, At: at(second)})
	}
	h.Trails[key] = []messages.LeaseEntry{
		{Op: messages.OpAcquire, Owner: "a#1", Epoch: 1, At: at(0)}, {Op: messages.OpRelease, Owner: "a#1", Epoch: 1, At: at(8)},
		{Op: messages.OpAcquire, Owner: "b#1", Epoch: 2, At: at(10)}, {Op: messages.OpAcquire, Owner: "c#1", Epoch: 3, At: at(30)},
	}
	h.pin(t, 1, "a#1", messages.Position{}, at(1))
	event(messages.LifecycleServing, "a#1", 1, 2)
	h.publish(t, 1, 1, "a#1", messages.Position{}, rows("w1"), at(7))
	h.Lifecycle = append(h.Lifecycle, messages.Lifecycle{Kind: messages.LifecycleReleased, Key: key, Owner: "a#1", Epoch: 1, At: at(8), Flushed: &flushed})
	first := messages.Position{Epoch: 1, Snapshot: 1}
	h.pin(t, 2, "b#1", first, at(11))
	event(messages.LifecycleServing, "b#1", 2, 12)
	h.publish(t, 2, 1, "b#1", first, rows("w1", "w2"), at(15))
	h.pin(t, 3, "c#1", messages.Position{Epoch: 2, Snapshot: 1}, at(31))
	event(messages.LifecycleServing, "c#1", 3, 32)
	h.Writes = []Write{
		{Key: key, ID: "w1", Owner: "a#1", Sent: at(3), Answered: at(4), Outcome: Acked, Seq: 1},
		{Key: key, ID: "w2", IdemKey: "", Owner: "b#1", Sent: at(13), Answered: at(14), Outcome: Acked, Seq: 2},
		{Key: key, ID: "w3", Owner: "b#1", Sent: at(16), Answered: at(17), Outcome: Acked, Seq: 3}, // the declared loss
		{Key: key, ID: "w4", Owner: "b#1", Sent: at(18), Answered: at(19), Outcome: Refused, Code: messages.CodeFenced},
	}
	h.Reads = []Read{{Key: key, Owner: "b#1", Sent: at(18), Answered: at(18), Rows: rows("w1", "w2", "w3")}}
	h.Final[key] = State{Epoch: 3, Rows: rows("w1", "w2")}
	return h
}

// TestEveryRuleIsJudged tampers with a sound history, and names the rule that must be found broken.
func TestEveryRuleIsJudged(t *testing.T) {
	second := messages.Position{Epoch: 2, Snapshot: 1}
	cases := []struct {
		name, rule string
		tamper     func(t *testing.T, h *History)
	}{
		{"an epoch is skipped", "I1", func(_ *testing.T, h *History) { h.Trails[key][3].Epoch = 4 }},
		{"an epoch is granted twice", "I1", func(_ *testing.T, h *History) { h.Trails[key][3].Epoch = 2 }},
		{"a stranger serves", "I2", func(_ *testing.T, h *History) {
			h.Lifecycle = append(h.Lifecycle, messages.Lifecycle{Kind: messages.LifecycleServing, Key: key, Owner: "x#1", Epoch: 2, At: at(13)})
		}},
		{"a stranger publishes", "I2", func(t *testing.T, h *History) {
			h.publish(t, 2, 2, "x#1", messages.Position{Epoch: 1, Snapshot: 1}, rows("w1", "w2"), at(16))
		}},
		{"an acknowledgement after the next grant", "I3", func(_ *testing.T, h *History) { h.Writes[2].Answered = at(31) }},
		{"a snapshot counts after the next grant", "I3", func(t *testing.T, h *History) {
			h.publish(t, 2, 2, "b#1", messages.Position{Epoch: 1, Snapshot: 1}, rows("w1", "w2", "w3"), at(33))
		}},
		{"an acknowledgement before the pin", "D14", func(t *testing.T, h *History) {
			h.pin(t, 2, "b#1", messages.Position{Epoch: 1, Snapshot: 1}, at(15))
		}},
		{"a write that nobody made", "I4", func(t *testing.T, h *History) { h.Final[key] = State{Epoch: 3, Rows: rows("w1", "wx")} }},
		{"a gap", "I4", func(t *testing.T, h *History) {
			h.Reads[0].Rows[1].Seq, h.Reads[0].Rows[2].Seq = 3, 4
		}},
		{"one seq, two meanings", "I4", func(_ *testing.T, h *History) { h.Writes[2].Seq = 2 }},
		{"a snapshot that landed is left behind", "S12", func(t *testing.T, h *History) {
			h.publish(t, 2, 2, "b#1", messages.Position{Epoch: 1, Snapshot: 1}, rows("w1", "w2", "w3"), at(29))
			h.Lifecycle = h.Lifecycle[:len(h.Lifecycle)-1] // it did not count
		}},
		{"a read misses what was acknowledged", "I4", func(_ *testing.T, h *History) { h.Reads[0].Rows = rows("w1") }},
		{"a snapshot misses what was acknowledged", "I4", func(_ *testing.T, h *History) { h.Writes[2].Answered = at(14) }},
		{"the final state is another", "I4", func(_ *testing.T, h *History) { h.Final[key] = State{Epoch: 3, Rows: rows("w1")} }},
		{"a snapshot forgets rows", "I4", func(t *testing.T, h *History) {
			h.publish(t, 2, 1, "b#1", messages.Position{Epoch: 1, Snapshot: 1}, rows("w2"), at(15))
		}},
		{"a graceful epoch loses a write", "I5", func(_ *testing.T, h *History) {
			h.Writes = append(h.Writes, Write{Key: key, ID: "w0", Owner: "a#1", Sent: at(5), Answered: at(8), Outcome: Acked, Seq: 2})
		}},
		{"another tenant's row", "I6", func(_ *testing.T, h *History) { h.Reads[0].Rows[0].Tenant = other }},
		{"a refused write stands", "G2", func(_ *testing.T, h *History) { h.Reads[0].Rows = rows("w1", "w2", "w3", "w4") }},
		{"a commit past the fence", "G2", func(_ *testing.T, h *History) { h.Writes[2].SawFence = at(16) }},
		{"a commit past the fence, in doubt", "G2", func(_ *testing.T, h *History) {
			h.Writes[2].SawFence, h.Writes[2].Outcome, h.Writes[2].Cause = at(16), Unknown, messages.CodeFenced
		}},
		{"an event twice", "W2", func(_ *testing.T, h *History) { h.Reads[0].Rows = rows("w1", "w2", "w2") }},
		{"an image that is not there", "S1", func(_ *testing.T, h *History) { delete(h.Objects, key.ImageName(2, 1)) }},
		{"an image after its manifest", "S1", func(_ *testing.T, h *History) {
			o := h.Objects[key.ImageName(2, 1)]
			o.At = at(16)
			h.Objects[key.ImageName(2, 1)] = o
		}},
		{"an image that does not match", "S1", func(_ *testing.T, h *History) {
			o := h.Objects[key.ImageName(2, 1)]
			o.Data = append(bytes.Clone(o.Data), 0)
			h.Objects[key.ImageName(2, 1)] = o
		}},
		{"a gap in the numbers", "S", func(t *testing.T, h *History) {
			h.publish(t, 3, 2, "c#1", second, rows("w1", "w2"), at(33))
		}},
		{"the head is passed over", "S2", func(t *testing.T, h *History) {
			h.pin(t, 3, "c#1", messages.Position{Epoch: 1, Snapshot: 1}, at(31))
		}},
		{"a counted snapshot is lost", "S2", func(t *testing.T, h *History) {
			h.publish(t, 1, 2, "a#1", messages.Position{}, rows("w1"), at(8))
		}},
		{"fenced by its own bytes", "S10", func(_ *testing.T, h *History) {
			h.Lifecycle = append(h.Lifecycle, messages.Lifecycle{Kind: messages.LifecycleFenced, Reason: messages.ReasonSlotTaken, Key: key, Owner: "b#1", Epoch: 2, At: at(20)})
		}},
		{"what was forgotten comes back", "S6", func(_ *testing.T, h *History) { h.Trails[key][3].Floor = 2 }},
		{"an acknowledgement after the floor", "S6", func(_ *testing.T, h *History) {
			h.Trails[key] = slices.Insert(h.Trails[key], 3, messages.LeaseEntry{Op: messages.OpForget, Owner: "b#1", Epoch: 2, Floor: 2, At: at(16)})
		}},
		{"a forget that did nothing", "S6", func(_ *testing.T, h *History) {
			h.Orders = append(h.Orders, Order{Key: key, Name: OrderForget, Owner: "c#1", Sent: at(33), Answered: at(34)})
		}},
		{"something is left", "S11", func(_ *testing.T, h *History) {
			h.Trails[key] = append(h.Trails[key], messages.LeaseEntry{Op: messages.OpForget, Owner: "c#1", Epoch: 3, Floor: 3, At: at(40)})
			h.Left = []string{key.ImageName(2, 1)}
		}},
	}
	require.Empty(t, sound(t).Check(context.Background()))
	for _, c := range cases {
		t.Run(c.rule+" "+c.name, func(t *testing.T) {
			h := sound(t)
			c.tamper(t, h)
			found := h.Check(context.Background())
			require.True(t, slices.ContainsFunc(found, func(v Violation) bool { return v.Rule == c.rule }), "found: %v", found)
		})
	}
}

// TestD6_DeclaredLimit: what an owner without a clock acknowledges is not held against it.
// A process that was killed before it could record that an object had landed has broken nothing.
func TestS1_ALandingThatNobodySawIsNoFinding(t *testing.T) {
	for _, name := range []string{key.ManifestName(2, 1), key.ImageName(2, 1)} {
		h := sound(t)
		o := h.Objects[name]
		o.By, o.At = "", time.Time{}
		h.Objects[name] = o
		require.Empty(t, h.Check(t.Context()))
	}
}

func TestD6_DeclaredLimit(t *testing.T) {
	h := sound(t)
	h.Writes[2].Answered = at(31)
	require.NotEmpty(t, h.Check(context.Background()))
	h.Clockless["b#1"] = at(20)
	require.Empty(t, h.Check(context.Background()))
}

// TestRestore follows the pins to the state that the next owner begins with.
func TestRestore(t *testing.T) {
	h := sound(t)
	for _, c := range []struct {
		below, floor uint64
		want         messages.Position
	}{
		{1, 0, messages.Position{}}, {2, 0, messages.Position{Epoch: 1, Snapshot: 1}}, {3, 0, messages.Position{Epoch: 2, Snapshot: 1}},
		{4, 0, messages.Position{Epoch: 2, Snapshot: 1}}, {4, 3, messages.Position{}},
	} {
		got, _, err := Restore(key, h.Objects, c.below, c.floor)
		require.NoError(t, err)
		require.Equal(t, c.want, got, "below %d, floor %d", c.below, c.floor)
	}
	_, _, err := Restore(key, h.Objects, 4, 2)
	require.ErrorContains(t, err, "forgotten")
	delete(h.Objects, key.ManifestName(2, 1))
	_, _, err = Restore(key, h.Objects, 4, 0)
	require.ErrorContains(t, err, "gone")
}

// TestReadLog completes intents, and leaves out the half line of a process that was killed.
func TestReadLog(t *testing.T) {
	var log bytes.Buffer
	for _, r := range []Record{
		{Write: &Write{Key: key, ID: "w1", Sent: at(1)}},
		{Write: &Write{Key: key, ID: "w2", Sent: at(2)}},
		{Write: &Write{Key: key, ID: "w1", Sent: at(1), Answered: at(3), Outcome: Acked, Seq: 1}},
		{Read: &Read{Key: key}}, {Order: &Order{Key: key, Name: OrderForget}}, {Lifecycle: &messages.Lifecycle{Key: key}},
	} {
		line, err := json.Marshal(r)
		require.NoError(t, err)
		fmt.Fprintf(&log, "%s\n", line)
	}
	log.WriteString(`{"write":{"id":"half`)
	h := &History{}
	require.NoError(t, h.ReadLog(&log))
	require.Len(t, h.Writes, 2)
	require.Equal(t, Acked, h.Writes[0].Outcome)
	require.Equal(t, Pending, h.Writes[1].Outcome)
	require.Len(t, h.Reads, 1)
	require.Len(t, h.Orders, 1)
	require.Len(t, h.Lifecycle, 1)
	require.Error(t, h.ReadLog(bytes.NewBufferString("nonsense\n")))
}

// TestOutcomeOf: only what says so itself leaves a write in doubt.
func TestOutcomeOf(t *testing.T) {
	require.Equal(t, Acked, OutcomeOf(nil))
	require.Equal(t, Refused, OutcomeOf(messages.Fenced(key, 1, "")))
	require.Equal(t, Unknown, OutcomeOf(messages.Unknown(key, 1, messages.Fenced(key, 1, ""))))
}
