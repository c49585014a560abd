package actors

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasehold/leasehold/messages"
)

// What has been acknowledged and is in no snapshot is bounded, see Config.MaxUnsaved. The ledger refuses the writes; here it is said.

// watchUnsaved raises the alarm while the tenant refuses writes because no snapshot lands, and ends it.
func (t *tenant) watchUnsaved() {
	if err := messages.AsError(t.handle.UnsavedLimit()); err != nil {
		t.alarmed = true
		t.node.raise(err)
		return
	}
	t.calmUnsaved()
}

// calm ends the alarms of a tenant that ends.
func (t *tenant) calm() {
	t.calmUnsaved()
	if t.lostFiles {
		t.node.clearAlarm(messages.CodeStorage, t.key.String())
	}
}

func (t *tenant) calmUnsaved() {
	if t.alarmed {
		t.alarmed = false
		t.node.clearAlarm(messages.CodeUnsavedLimit, t.key.String())
	}
}

var oldestUnsavedDesc = prometheus.NewDesc("leasehold_oldest_unsaved_seconds",
	"Age of the oldest acknowledged write of any open tenant that no snapshot holds; 0: all are saved.", nil, nil)

// oldestUnsaved is the metric of a node. It asks the ledgers when it is read.
type oldestUnsaved struct{ node *Node }

// Describe implements prometheus.Collector.
func (o oldestUnsaved) Describe(ch chan<- *prometheus.Desc) { ch <- oldestUnsavedDesc }

// Collect implements prometheus.Collector.
func (o oldestUnsaved) Collect(ch chan<- prometheus.Metric) {
	oldest := time.Duration(0)
	o.node.active.Range(func(_, act any) bool {
		if ledger := act.(*activation).ledger.Load(); ledger != nil {
			age, _ := ledger.Unsaved()
			oldest = max(oldest, age)
		}
		return true
	})
	ch <- prometheus.MustNewConstMetric(oldestUnsavedDesc, prometheus.GaugeValue, oldest.Seconds())
}
