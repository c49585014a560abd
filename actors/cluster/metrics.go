package cluster

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/messages"
)

type metrics struct {
	registry  prometheus.Registerer
	members   prometheus.Gauge
	redirects prometheus.Counter
	moves     *prometheus.CounterVec
	moveTime  prometheus.Histogram
	hedges    []prometheus.Collector
}

// newMetrics registers the metrics; hedged tells what the member's own client has hedged.
func newMetrics(registry prometheus.Registerer, hedged func() client.Stats) (*metrics, error) {
	m := &metrics{
		registry:  registry,
		members:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "leasehold_members", Help: "Members of the cluster that this node hears, itself included."}),
		redirects: prometheus.NewCounter(prometheus.CounterOpts{Name: "leasehold_redirects_total", Help: "Requests that were refused because another member serves the tenant, or should."}),
		moves:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "leasehold_moves_total", Help: "Tenants handed to another member, by outcome."}, []string{"code"}),
		moveTime:  prometheus.NewHistogram(prometheus.HistogramOpts{Name: "leasehold_move_seconds", Help: "Time of a move until the lease was released.", Buckets: prometheus.DefBuckets}),
	}
	for outcome, count := range map[string]func(client.Stats) uint64{
		"asked": func(s client.Stats) uint64 { return s.Hedges }, "sent": func(s client.Stats) uint64 { return s.Resent },
		"won": func(s client.Stats) uint64 { return s.Won }, "denied": func(s client.Stats) uint64 { return s.Denied },
	} {
		m.hedges = append(m.hedges, prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "leasehold_hedges_total",
			Help:        "Requests to other members that were not answered soon: asked whom to ask, sent a second time, won by the second way, denied for there were too many.",
			ConstLabels: prometheus.Labels{"outcome": outcome}}, func() float64 { return float64(count(hedged())) }))
	}
	for i, c := range m.all() {
		if err := registry.Register(c); err != nil {
			for _, done := range m.all()[:i] {
				registry.Unregister(done)
			}
			return nil, &messages.Error{Code: messages.CodeInvalidArgument, Message: "the registry has another member's metrics", Err: err}
		}
	}
	return m, nil
}

func (m *metrics) all() []prometheus.Collector {
	return append([]prometheus.Collector{m.members, m.redirects, m.moves, m.moveTime}, m.hedges...)
}

func (m *metrics) close() {
	for _, c := range m.all() {
		m.registry.Unregister(c)
	}
}

func (m *metrics) moved(took time.Duration, err error) {
	code := "ok"
	var e *messages.Error
	switch {
	case errors.As(err, &e):
		code = string(e.Code)
	case err != nil:
		code = string(messages.CodeInternal)
	default:
		m.moveTime.Observe(took.Seconds())
	}
	m.moves.WithLabelValues(code).Inc()
}
