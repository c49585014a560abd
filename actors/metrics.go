package actors

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasehold/leasehold/messages"
)

// metrics are a node's counters and histograms. Labels are codes and kinds, never tenants: their
// number is bounded, and a tenant id does not belong into a time series.
type metrics struct {
	open       prometheus.Gauge
	inFlight   prometheus.Gauge
	lifecycle  *prometheus.CounterVec
	requests   *prometheus.CounterVec
	latency    *prometheus.HistogramVec
	openTime   prometheus.Histogram
	handoff    prometheus.Histogram
	snapshot   prometheus.Histogram
	imageBytes prometheus.Histogram
	renewFails prometheus.Counter
	evictions  prometheus.Counter
	lag        prometheus.Histogram
	diskFull   prometheus.Gauge
	setAside   prometheus.Gauge

	registry   prometheus.Registerer
	registered []prometheus.Collector
}

// newMetrics registers a node's metrics and more, all or none; close must follow.
func newMetrics(reg prometheus.Registerer, more ...prometheus.Collector) (*metrics, error) {
	seconds := prometheus.ExponentialBuckets(0.0001, 4, 11) // 0.1 ms to 105 s
	m := &metrics{
		registry: reg,

		open:       prometheus.NewGauge(prometheus.GaugeOpts{Name: "leasehold_tenants_open", Help: "Tenants with an actor on this node."}),
		inFlight:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "leasehold_requests_in_flight", Help: "Requests that have not been answered yet."}),
		lifecycle:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "leasehold_lifecycle_total", Help: "Lifecycle events by kind and code."}, []string{"kind", "code"}),
		requests:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "leasehold_requests_total", Help: "Requests to tenants by operation and code (ok: acknowledged)."}, []string{"op", "code"}),
		latency:    prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "leasehold_request_seconds", Help: "Time of a request to a tenant by operation.", Buckets: seconds}, []string{"op"}),
		openTime:   prometheus.NewHistogram(prometheus.HistogramOpts{Name: "leasehold_open_seconds", Help: "Time from the request to open a tenant until it serves.", Buckets: seconds}),
		handoff:    prometheus.NewHistogram(prometheus.HistogramOpts{Name: "leasehold_handoff_seconds", Help: "Time of a handoff that succeeded.", Buckets: seconds}),
		snapshot:   prometheus.NewHistogram(prometheus.HistogramOpts{Name: "leasehold_snapshot_seconds", Help: "Time from the cut of a snapshot until it counts.", Buckets: seconds}),
		imageBytes: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "leasehold_image_bytes", Help: "Size of the published images.", Buckets: prometheus.ExponentialBuckets(1<<12, 8, 9)}),
		renewFails: prometheus.NewCounter(prometheus.CounterOpts{Name: "leasehold_renewals_unanswered_total", Help: "Renewals that the lease store did not answer."}),
		evictions:  prometheus.NewCounter(prometheus.CounterOpts{Name: "leasehold_evictions_total", Help: "Tenants handed off because they were idle or made room for another."}),
		lag:        prometheus.NewHistogram(prometheus.HistogramOpts{Name: "leasehold_renewal_window_seconds", Help: "What was left of the window when a renewal succeeded.", Buckets: seconds}),
		diskFull:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "leasehold_disk_full", Help: "1 while this node takes no new tenants because its local disk cannot be written to."}),
		setAside:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "leasehold_ledgers_set_aside", Help: "Local ledgers of ended ownerships that hold writes which no snapshot has."}),
	}
	for _, c := range append(more, m.open, m.inFlight, m.lifecycle, m.requests, m.latency, m.openTime, m.handoff, m.snapshot, m.imageBytes, m.renewFails, m.evictions, m.lag, m.diskFull, m.setAside) {
		if err := reg.Register(c); err != nil {
			m.close()
			return nil, errors.Join(&messages.Error{Code: messages.CodeInvalidArgument, Message: "the registerer has another node's metrics"}, err)
		}
		m.registered = append(m.registered, c)
	}
	return m, nil
}

// close takes the metrics out of the registry, so that it can have those of the next node.
func (m *metrics) close() {
	for _, c := range m.registered {
		m.registry.Unregister(c)
	}
	m.registered = nil
}

func (m *metrics) request(op string, took time.Duration, err error) {
	code := "ok"
	if err != nil {
		code = string(messages.CodeOf(err))
	}
	m.requests.WithLabelValues(op, code).Inc()
	m.latency.WithLabelValues(op).Observe(took.Seconds())
}
