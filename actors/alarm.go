package actors

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasehold/leasehold/messages"
)

// Alarm is a condition that does not end by itself, or must not be waited out unseen: an operator has to look. As long
// as it stands, the node is not ready, and counts it in leasehold_alarms.
type Alarm struct {
	// Err says what is wrong. Its Code and its Key ("": the node as a whole) name the alarm: there is one for each pair.
	Err *messages.Error
	// Since is when the alarm was raised first, by the node's clock.
	Since time.Time
	seen  time.Time // raised last
}

const (
	// alarmFor is how long an alarm of one tenant stands after it was raised last. The tenant may be mended, and served
	// elsewhere, without this node's hearing of it.
	alarmFor = 5 * time.Minute
	// maxAlarms bounds the alarms of tenants that are kept: a store that is gone raises one for each tenant.
	maxAlarms = 1000
)

// alarmCodes are shown in leasehold_alarms also where no alarm stands, so that an alert has something to compare.
var alarmCodes = []messages.Code{messages.CodeUnsavedLimit, messages.CodeIncapable, messages.CodeLineageAhead, messages.CodeLineageMissing, messages.CodeUnavailable, messages.CodeDeploymentMismatch}

type alarmName struct {
	code messages.Code
	key  string
}

// alarms are shared: actors raise and clear them, and whoever asks for the node's health reads them.
type alarms struct {
	now func() time.Time

	mu       sync.Mutex
	standing map[alarmName]Alarm
}

func newAlarms(now func() time.Time) *alarms {
	return &alarms{now: now, standing: make(map[alarmName]Alarm)}
}

// raise adds an alarm, or keeps it standing, and reports whether it is new.
func (a *alarms) raise(err *messages.Error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expire()
	name, now := alarmName{err.Code, err.Key}, a.now()
	old, known := a.standing[name]
	switch {
	case known:
		a.standing[name] = Alarm{Err: err, Since: old.Since, seen: now}
	case err.Key == "" || len(a.standing) < maxAlarms:
		a.standing[name] = Alarm{Err: err, Since: now, seen: now}
	}
	return !known
}

// clear removes an alarm, and reports whether it stood.
func (a *alarms) clear(code messages.Code, key string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expire()
	name := alarmName{code, key}
	_, stood := a.standing[name]
	delete(a.standing, name)
	return stood
}

// stands returns the error of an alarm that stands, or nil.
func (a *alarms) stands(code messages.Code, key string) *messages.Error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expire()
	return a.standing[alarmName{code, key}].Err
}

func (a *alarms) expire() {
	now := a.now()
	for name, alarm := range a.standing {
		if name.key != "" && now.Sub(alarm.seen) > alarmFor {
			delete(a.standing, name)
		}
	}
}

func (a *alarms) list() []Alarm {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expire()
	out := make([]Alarm, 0, len(a.standing))
	for _, alarm := range a.standing {
		out = append(out, alarm)
	}
	slices.SortFunc(out, func(x, y Alarm) int {
		return cmp.Or(cmp.Compare(x.Err.Key, y.Err.Key), cmp.Compare(x.Err.Code, y.Err.Code))
	})
	return out
}

var alarmsDesc = prometheus.NewDesc("leasehold_alarms", "Conditions that an operator has to look at, by code.", []string{"code"}, nil)

// Describe implements prometheus.Collector.
func (a *alarms) Describe(ch chan<- *prometheus.Desc) { ch <- alarmsDesc }

// Collect implements prometheus.Collector.
func (a *alarms) Collect(ch chan<- prometheus.Metric) {
	counts := make(map[messages.Code]int)
	for _, code := range alarmCodes {
		counts[code] = 0
	}
	for _, alarm := range a.list() {
		counts[alarm.Err.Code]++
	}
	for code, n := range counts {
		ch <- prometheus.MustNewConstMetric(alarmsDesc, prometheus.GaugeValue, float64(n), string(code))
	}
}

// Alarms returns the alarms that stand, those of the node as a whole first, then by key and code. It waits for nothing.
func (n *Node) Alarms() []Alarm { return n.alarms.list() }

// raise raises the alarm that err's code and key name. Only the first time it is logged.
func (n *Node) raise(err *messages.Error) {
	if n.alarms.raise(err) {
		n.cfg.Log.Error("alarm", "code", err.Code, "key", err.Key, "error", err)
	}
}

// RaiseAlarm raises the alarm that err's code and key name, for what is built on a node: the first time it is logged as an
// error, and it stands until it is cleared.
func (n *Node) RaiseAlarm(err *messages.Error) { n.raise(err) }

// ClearAlarm ends an alarm, if it stands; key is "" for one of the node as a whole.
func (n *Node) ClearAlarm(code messages.Code, key string) { n.clearAlarm(code, key) }

// clearAlarm ends an alarm, if it stands; key is "" for one of the node as a whole.
func (n *Node) clearAlarm(code messages.Code, key string) {
	if n.alarms.clear(code, key) {
		n.cfg.Log.Info("alarm cleared", "code", code, "key", key)
	}
}
