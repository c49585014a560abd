package actors

import (
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasehold/leasehold/ledgeractor"
)

// tempFolder is the folder of SQLite's temporary files below the state root.
const tempFolder = "tmp"

func (c Config) tempPath() string { return filepath.Join(c.StateRoot, tempFolder) }

// queriesConfig is the part of the configuration that the queries of all tenants share.
func (c Config) queriesConfig() ledgeractor.QueriesConfig {
	return ledgeractor.QueriesConfig{Max: c.MaxQueries, Processes: c.QueryProcesses, Memory: c.QueryMemory, TempDir: c.tempPath(), Now: c.Now, Log: c.Log}
}

// queryMetrics are what an operator sees of the queries.
func queryMetrics(q *ledgeractor.Queries) []prometheus.Collector {
	gauge := func(name, help string, value func(ledgeractor.QueriesStatus) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(q.Status()) })
	}
	return []prometheus.Collector{
		gauge("leasehold_queries_running", "Queries that run.", func(s ledgeractor.QueriesStatus) float64 { return float64(s.Running) }),
		gauge("leasehold_queries_waiting", "Queries that wait for their turn.", func(s ledgeractor.QueriesStatus) float64 { return float64(s.Waiting) }),
		gauge("leasehold_query_processes", "Query processes that are alive.", func(s ledgeractor.QueriesStatus) float64 { return float64(s.Processes) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "leasehold_query_processes_killed_total",
			Help: "Query processes that were killed, because a query did not end when it was interrupted."},
			func() float64 { return float64(q.Status().Killed) }),
	}
}
