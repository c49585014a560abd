package main_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

const (
	calmTenants  = 20
	appendPace   = 200 * time.Millisecond // of each calm tenant
	phase        = 8 * time.Second
	allowedRatio = 5
)

// appends has each calm tenant append at its pace for a while, and returns the 99th percentile of the time that took.
func appends(t *testing.T, p *process) time.Duration {
	var mu sync.Mutex
	var took []time.Duration
	var group sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), phase)
	defer cancel()
	for n := range calmTenants {
		group.Go(func() {
			tick := time.NewTicker(appendPace)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				begun := time.Now()
				r := p.post(path(number(n))+"/events", `{"kind":"calm"}`)
				mu.Lock()
				took = append(took, time.Since(begun))
				mu.Unlock()
				if r.err != nil || r.status != http.StatusOK {
					t.Errorf("an append of a tenant that asks for little: %v %d %s", r.err, r.status, r.body)
					return
				}
			}
		})
	}
	group.Wait()
	slices.Sort(took)
	return took[len(took)*99/100]
}

// 40 endless queries over 20 tenants, and 4 that want 512 MB over 2, beside 20 other tenants with 5 appends a second each: no lease is
// lost, no renewal unanswered, and the appends of the others take at most 5 times as long as without them.
func TestQ3_QueriesTakeNothingFromOtherTenants(t *testing.T) {
	p := run(t, t.TempDir())
	for n := range 20 {
		require.Equal(t, http.StatusOK, p.post(path(number(n))+"/events", `{"kind":"first"}`).status)
		require.Equal(t, http.StatusOK, p.post(path(number(100+n))+"/events", `{"kind":"first"}`).status)
		require.Equal(t, http.StatusOK, p.post(path(number(200+n%2))+"/events", `{"kind":"first"}`).status)
	}
	hungry := "SELECT " + strings.TrimSuffix(strings.Repeat("hex(zeroblob(8000000)), ", 32), ", ")
	ratio := 0.0
	// The machine has other things to do: of three tries one must do.
	for try := 1; try <= 3; try++ {
		without := appends(t, p)
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		answers := map[string]int{}
		var group sync.WaitGroup
		ask := func(tenant int, sql string) {
			group.Go(func() {
				for ctx.Err() == nil {
					r := p.do(ctx, http.MethodPost, path(number(tenant))+"/query", fmt.Sprintf(`{"sql":%q}`, sql))
					if ctx.Err() != nil {
						return
					}
					mu.Lock()
					answers[string(r.code())]++
					mu.Unlock()
				}
			})
		}
		for n := range 40 {
			ask(100+n%20, "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c")
		}
		for n := range 4 {
			ask(200+n%2, hungry)
		}
		with := appends(t, p)
		begun := time.Now()
		small := p.post(path(number(0))+"/query", `{"sql":"SELECT count(*) FROM events"}`)
		waited := time.Since(begun)
		cancel()
		group.Wait()
		ratio = float64(with) / float64(without)
		t.Logf("p99 of appends without the queries %v, with them %v: × %.1f; a small query of another tenant waited %v; the queries were answered %v",
			without, with, ratio, waited, answers)
		require.Equal(t, http.StatusOK, small.status, string(small.body))
		require.Positive(t, answers[string(messages.CodeOverloaded)]+answers[string(messages.CodeDeadlineExceeded)])
		if ratio <= allowedRatio {
			break
		}
	}
	require.LessOrEqual(t, ratio, float64(allowedRatio))
	metrics := string(p.get("/metrics").body)
	require.Contains(t, metrics, "\nleasehold_renewals_unanswered_total 0\n")
	require.NotRegexp(t, regexp.MustCompile(`(?m)^leasehold_lifecycle_total\{[^}]*kind="(fenced|lost|failed)"\}`), metrics)
	begun := time.Now()
	p.terminate()
	t.Logf("SIGTERM was carried out in %v", time.Since(begun))
}
