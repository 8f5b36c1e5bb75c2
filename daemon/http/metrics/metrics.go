package metrics

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"polis/daemon/api"
)

// ContentType is the type of Text.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

const (
	// fresh is how long a text is served again: each new one queries every shim.
	fresh = time.Second
	// gatherTime bounds the queries for one text.
	gatherTime = 10 * time.Second
)

// State is what a Source knows at a moment.
type State struct {
	Version string
	Agents  []api.Agent
	Locks   Locks
	// Queued are the lengths of the merge queues, by workspace.
	Queued map[string]int
	// Models are what agents used of model services.
	Models []ModelUse
	// SharedBudgets are those that the agents of a role share.
	SharedBudgets []SharedBudget
	// Cases are the open cases of the patrol.
	Cases api.CaseDigest
}

// Locks are counters of the lock table.
type Locks struct {
	Leases, Waiters                          int
	Granted, Conflicts, Waits, Broken, Stale uint64
}

// Source returns the present state. It returns what it knows when ctx ends.
type Source func(ctx context.Context) State

// Metrics are the metrics of one polisd. Use New. All methods are safe for concurrent use.
type Metrics struct {
	registry  *prometheus.Registry
	state     *collector
	merges    *prometheus.HistogramVec
	questions *prometheus.HistogramVec
	patrol    prometheus.Histogram
	seen      recent // requests to merge whose end was counted

	mu   sync.Mutex
	at   time.Time // of text
	text []byte
}

// New makes the metrics.
func New(source Source) *Metrics {
	waits := []float64{.1, .5, 1, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600}
	m := &Metrics{
		registry: prometheus.NewRegistry(), state: &collector{source: source},
		merges: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "polis_merge_wait_seconds", Buckets: waits,
			Help: "From a request to merge to its end, by result (merged, failed, withdrawn)."}, []string{"result"}),
		questions: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "polis_approval_wait_seconds", Buckets: waits,
			Help: "From a question of an agent to its end, by result (approve, deny, abort, withdrawn)."}, []string{"result"}),
		patrol: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "polis_patrol_cycle_seconds",
			Help: "Duration of the cycles of the patrol.", Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 60}}),
	}
	m.registry.MustRegister(m.state, m.merges, m.questions, m.patrol)
	// A result that has not happened is zero: a rate needs the value before the first one.
	for _, r := range mergeResults {
		m.merges.WithLabelValues(r)
	}
	for _, r := range answerResults {
		m.questions.WithLabelValues(r)
	}
	return m
}

// Cycle counts a cycle of the patrol.
func (m *Metrics) Cycle(took time.Duration) { m.patrol.Observe(took.Seconds()) }

// Text returns all metrics in the text format of Prometheus. Calls within a second get one text.
func (m *Metrics) Text(ctx context.Context) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.text != nil && time.Since(m.at) < fresh {
		return m.text, nil
	}
	ctx, cancel := context.WithTimeout(ctx, gatherTime)
	defer cancel()
	m.state.read(ctx)
	families, err := m.registry.Gather()
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	var b bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	if ctx.Err() == nil { // else agents can be missing
		m.at, m.text = time.Now(), b.Bytes()
	}
	return b.Bytes(), nil
}
