package history

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

func seen(epoch uint64, seq int64) messages.Seen { return messages.Seen{Epoch: epoch, Seq: seq} }

// TestEveryRuleOfReplies puts one reply, or one answer, into a sound history, in which b#1 lost w3, seq 3 of epoch 2.
func TestEveryRuleOfReplies(t *testing.T) {
	reply := func(code messages.Code, was, state messages.Seen) func(*testing.T, *History) {
		return func(_ *testing.T, h *History) {
			h.Replies = append(h.Replies, Reply{Key: key, Action: messages.ActionEvents, Owner: "c#1", Sent: at(33), Answered: at(34), Seen: was, State: state, Code: code})
		}
	}
	write := func(w ...Write) func(*testing.T, *History) {
		return func(_ *testing.T, h *History) { h.Writes = append(h.Writes, w...) }
	}
	twice := func(duplicate bool) Write {
		return Write{Key: key, ID: "w2", Attempt: 1, Owner: "b#1", Epoch: 2, Sent: at(15), Answered: at(16), Outcome: Acked, Seq: 2, Duplicate: duplicate}
	}
	forget := func(code messages.Code) func(*testing.T, *History) {
		return func(_ *testing.T, h *History) {
			h.Trails[key] = append(h.Trails[key], messages.LeaseEntry{Op: messages.OpForget, Owner: "c#1", Epoch: 3, Floor: 3, At: at(40)})
			h.Orders = append(h.Orders, Order{Key: key, Name: OrderForget, Owner: "c#1", Sent: at(35), Answered: at(41), Code: code})
			h.Left = []string{}
		}
	}
	group := func(t *testing.T, h *History) { h.Writes[1].Group, h.Writes[2].Group = "g", "g" }
	for name, tc := range map[string]struct {
		rule   string // "": nothing is broken
		tamper func(*testing.T, *History)
	}{
		"the same state":                        {"", reply("", seen(3, 2), seen(3, 2))},
		"an older state of the epoch":           {"Q4", reply("", seen(3, 2), seen(3, 1))},
		"no state":                              {"Q4", reply("", seen(3, 2), seen(3, 0))},
		"an older epoch":                        {"Q4", reply("", seen(3, 2), seen(2, 3))},
		"a later epoch that has it":             {"", reply("", seen(2, 2), seen(3, 2))},
		"a later epoch that lost it":            {"H2", reply("", seen(2, 3), seen(3, 9))},
		"an epoch after the one that lost it":   {"H2", reply("", seen(1, 2), seen(3, 9))},
		"a loss that is told":                   {"", reply(messages.CodeHistoryLost, seen(2, 3), seen(3, 9))},
		"a loss that was none":                  {"H2", reply(messages.CodeHistoryLost, seen(2, 2), seen(3, 9))},
		"a loss within an epoch":                {"H2", reply(messages.CodeHistoryLost, seen(3, 9), seen(3, 2))},
		"an epoch that there never was":         {"", reply(messages.CodeHistoryLost, seen(4, 1), seen(3, 2))},
		"an epoch that was granted":             {"H2", reply(messages.CodeHistoryLost, seen(3, 1), seen(2, 2))},
		"a tenant that there is, unknown":       {"Q2", reply(messages.CodeUnknownTenant, seen(0, 0), seen(0, 0))},
		"a duplicate":                           {"", write(twice(true))},
		"a duplicate that nobody is told of":    {"W2", write(twice(false))},
		"a duplicate of nothing":                {"W2", write(Write{Key: key, ID: "w5", Owner: "b#1", Epoch: 2, Sent: at(15), Answered: at(16), Outcome: Acked, Seq: 2, Duplicate: true})},
		"a forget that was carried out":         {"", forget("")},
		"a forget in doubt":                     {"", forget(messages.CodeUnknownOutcome)},
		"a forget that was refused":             {"Q1", forget(messages.CodeDeadlineExceeded)},
		"one of two that stand together":        {"W2", group},
		"two that stand together":               {"", func(_ *testing.T, h *History) { h.Writes[0].Group, h.Writes[1].Group = "g", "" }},
		"one of two, the other one was refused": {"", func(_ *testing.T, h *History) { h.Writes[1].Group, h.Writes[3].Group = "g", "g" }},
	} {
		t.Run(name, func(t *testing.T) {
			h := sound(t)
			tc.tamper(t, h)
			found := h.Check(t.Context())
			if tc.rule == "" {
				require.False(t, slices.ContainsFunc(found, func(v Violation) bool {
					return v.Rule == "Q1" || v.Rule == "Q2" || v.Rule == "Q4" || v.Rule == "H2" || v.Rule == "W2"
				}), "found: %v", found)
			} else {
				require.True(t, slices.ContainsFunc(found, func(v Violation) bool { return v.Rule == tc.rule }), "found: %v", found)
			}
		})
	}
}
