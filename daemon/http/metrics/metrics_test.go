package metrics

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
	"polis/daemon/gateway/ledger"
	"polis/daemon/gateway/usage"
	"polis/daemon/store/events"
)

func fixed(s State) Source { return func(context.Context) State { return s } }

// full has every metric.
func full() State {
	h := api.Times{Counts: []int64{2, 1, 4}, SumNanos: 3e9}
	used := ledger.Counts{Requests: 9, Errors: 1, Refused: 2, Retries: 3, Cut: 1, Unpriced: 4, Tokens: usage.Tokens{Input: 100, Output: 20, CacheRead: 7}, Micros: 2_500_000, Priced: 1}
	for _, micros := range []int64{40_000, 300_000, 70_000_000} {
		used.TookFirst(micros)
	}
	return State{Version: "1.2.3", Models: []ModelUse{{"a", "w", "claude", "big-1", used, map[string]int64{"EUR": 2_500_000}}}, SharedBudgets: []SharedBudget{{"team", "day_tokens", 0.5}}, Queued: map[string]int{"w": 3}, Cases: api.CaseDigest{Open: 2}, Locks: Locks{Leases: 2, Conflicts: 5, Granted: 7, Waiters: 1},
		Agents: []api.Agent{
			{Name: "b", Workspace: "w", Status: api.StatusStopped},
			{Name: "a", Workspace: "w", Status: api.StatusRunning, MemoryBytes: 7, CPUMicros: 1500000, Counters: &api.Counters{ReadCount: 3, WriteDenied: 4},
				Times: &api.AgentTimes{Bounds: []int64{1e6, 1e9}, Reads: h, Writes: h, LeaseWaits: h}, Waiting: &api.Waiting{For: api.WaitingApproval, Open: 2}, Models: &api.ModelUse{Requests: 9, Budget: &api.ModelBudgetUse{Percent: 81}}},
		}}
}

func text(t require.TestingT, m *Metrics) string {
	b, err := m.Text(context.Background())
	require.NoError(t, err)
	return string(b)
}

func TestTheTextHasARowForEachAgentThatHasTheCounter(t *testing.T) {
	s := text(t, New(fixed(full())))
	for _, line := range []string{
		"# TYPE polis_leases gauge\npolis_leases 2\n", "polis_lock_conflicts_total 5\n", "polis_leases_granted_total 7\n", "polis_lease_waiters 1\n",
		"polis_build_info{version=\"1.2.3\"} 1\n", "polis_queue_length{workspace=\"w\"} 3\n", "polis_cases_open 2\n",
		"# TYPE polis_agent_up gauge\npolis_agent_up{agent=\"a\",workspace=\"w\"} 1\npolis_agent_up{agent=\"b\",workspace=\"w\"} 0\n",
		"polis_agent_memory_bytes{agent=\"a\",workspace=\"w\"} 7\n", "polis_agent_reads_total{agent=\"a\",workspace=\"w\"} 3\n",
		"polis_agent_cpu_seconds_total{agent=\"a\",workspace=\"w\"} 1.5\n",
		"polis_agent_writes_denied_total{agent=\"a\",workspace=\"w\"} 4\n", "polis_agent_questions_open{agent=\"a\",workspace=\"w\"} 2\n",
		"polis_agent_read_duration_seconds_bucket{agent=\"a\",workspace=\"w\",le=\"0.001\"} 2\n",
		"polis_agent_read_duration_seconds_bucket{agent=\"a\",workspace=\"w\",le=\"1\"} 3\n",
		"polis_agent_read_duration_seconds_bucket{agent=\"a\",workspace=\"w\",le=\"+Inf\"} 7\n",
		"polis_agent_read_duration_seconds_sum{agent=\"a\",workspace=\"w\"} 3\n", "polis_agent_read_duration_seconds_count{agent=\"a\",workspace=\"w\"} 7\n",
		"polis_merge_wait_seconds_count{result=\"merged\"} 0\n", "polis_approval_wait_seconds_count{result=\"deny\"} 0\n",
		"polis_model_requests_total{agent=\"a\",model=\"big-1\",service=\"claude\",workspace=\"w\"} 9\n",
		"polis_model_errors_total{agent=\"a\",model=\"big-1\",service=\"claude\",workspace=\"w\"} 1\n",
		"polis_model_tokens_total{agent=\"a\",kind=\"cache_read\",model=\"big-1\",service=\"claude\",workspace=\"w\"} 7\n",
		"polis_model_cost_total{agent=\"a\",currency=\"EUR\",model=\"big-1\",service=\"claude\",workspace=\"w\"} 2.5\n",
		"polis_model_first_token_seconds_bucket{agent=\"a\",model=\"big-1\",service=\"claude\",workspace=\"w\",le=\"0.05\"} 1\n",
		"polis_model_first_token_seconds_bucket{agent=\"a\",model=\"big-1\",service=\"claude\",workspace=\"w\",le=\"0.5\"} 2\n",
		"polis_model_first_token_seconds_count{agent=\"a\",model=\"big-1\",service=\"claude\",workspace=\"w\"} 3\n",
		"polis_model_first_token_seconds_sum{agent=\"a\",model=\"big-1\",service=\"claude\",workspace=\"w\"} 70.34\n",
		"polis_role_model_budget_ratio{bound=\"day_tokens\",role=\"team\"} 0.5\n",
		"polis_agent_model_budget_ratio{agent=\"a\",workspace=\"w\"} 0.81\n",
	} {
		require.Contains(t, s, line)
	}
	require.NotContains(t, s, "reads_total{agent=\"b\"", "an agent that never ran has no counters")
	require.NotContains(t, s, "memory_bytes{agent=\"b\"", "a stopped agent uses no memory")
}

// TestTheNamesFollowTheConventions: of Prometheus. Two averages of seed 002 are in nanoseconds, as its
// counters are.
func TestTheNamesFollowTheConventions(t *testing.T) {
	m := New(fixed(full()))
	m.state.read(t.Context())
	families, err := m.registry.Gather()
	require.NoError(t, err)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	require.NoError(t, err)
	for _, p := range problems {
		if p.Metric != "polis_agent_read_latency_ns" && p.Metric != "polis_agent_write_latency_ns" {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

func TestBucketsOfAnotherVersionAreLeftOut(t *testing.T) {
	s := full()
	s.Agents[1].Times.Reads.Counts = []int64{1}
	out := text(t, New(fixed(s)))
	require.NotContains(t, out, "polis_agent_read_duration_seconds_bucket")
	require.Contains(t, out, "polis_agent_write_duration_seconds_bucket")
}

// TestBucketsOnlyGrowWithTheirBound: whatever an agent's shim sends, the text is one that Prometheus
// accepts.
func TestBucketsOnlyGrowWithTheirBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 5).Draw(t, "bounds")
		bounds := rapid.SliceOfN(rapid.Int64(), n, n).Draw(t, "bounds")
		counts := rapid.SliceOfN(rapid.Int64Range(-3, 1000), n, n+1).Draw(t, "counts")
		s := full()
		s.Agents[1].Times = &api.AgentTimes{Bounds: bounds, Reads: api.Times{Counts: counts, SumNanos: rapid.Int64().Draw(t, "sum")}}
		require.Contains(t, text(t, New(fixed(s))), "polis_agent_up")
	})
}

func TestRequestsWithinASecondGetOneText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		m := New(func(context.Context) State { calls++; return State{} })
		for range 5 {
			text(t, m)
		}
		require.Equal(t, 1, calls)
		time.Sleep(fresh)
		text(t, m)
		require.Equal(t, 2, calls)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		time.Sleep(fresh)
		_, err := m.Text(ctx)
		require.NoError(t, err)
		text(t, m)
		require.Equal(t, 4, calls, "a text that may lack agents is not served again")
	})
}

func TestEventsAreCounted(t *testing.T) {
	asked := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	ended := asked.Add(20 * time.Second)
	signal := api.MergeSignal{ID: "a.1", Ready: asked, Ended: &ended}
	// As it comes from a shim: decoded JSON.
	decoded := func(v any) (out any) {
		b, err := json.Marshal(v)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(b, &out))
		return out
	}
	for _, tc := range []struct {
		name  string
		event api.Event
		want  string
	}{
		{"a merge", api.Event{Type: api.EventMergeMerged, Data: map[string]any{"signal": signal}}, `polis_merge_wait_seconds_sum{result="merged"} 20`},
		{"a merge by pointer", api.Event{Type: api.EventMergeMerged, Data: map[string]any{"signal": &signal}}, `polis_merge_wait_seconds_sum{result="merged"} 20`},
		{"a failed merge", api.Event{Type: api.EventMergeFailed, Data: map[string]any{"signal": decoded(signal)}}, `polis_merge_wait_seconds_sum{result="failed"} 20`},
		{"a withdrawn request", api.Event{Type: api.EventMergeWithdrawn, Data: map[string]any{"signal": signal}}, `polis_merge_wait_seconds_count{result="withdrawn"} 1`},
		{"a merge without a signal", api.Event{Type: api.EventMergeMerged}, `polis_merge_wait_seconds_count{result="merged"} 0`},
		{"an answer", api.Event{Type: api.EventApprovalAnswered, Time: ended, Data: map[string]any{"since": asked, "verdict": api.VerdictDeny}}, `polis_approval_wait_seconds_sum{result="deny"} 20`},
		{"an answer of a shim", api.Event{Type: api.EventApprovalAnswered, Time: ended, Data: map[string]any{"since": decoded(asked), "verdict": "approve"}}, `polis_approval_wait_seconds_sum{result="approve"} 20`},
		{"a clock that went back", api.Event{Type: api.EventApprovalAnswered, Time: asked.Add(-time.Hour), Data: map[string]any{"since": asked, "verdict": "abort"}}, `polis_approval_wait_seconds_sum{result="abort"} 0`},
		{"a withdrawn question", api.Event{Type: api.EventApprovalGone, Time: ended, Data: map[string]any{"since": asked}}, `polis_approval_wait_seconds_count{result="withdrawn"} 1`},
		{"an unknown verdict", api.Event{Type: api.EventApprovalAnswered, Time: ended, Data: map[string]any{"since": asked, "verdict": "x\"y"}}, `polis_approval_wait_seconds_count{result="deny"} 0`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := New(fixed(State{}))
			m.Observe(tc.event)
			s := text(t, m)
			require.Contains(t, s, tc.want+"\n")
			require.NotContains(t, s, `x\"y`)
		})
	}
	m := New(fixed(State{}))
	m.Cycle(2 * time.Second)
	for range 3 {
		m.Observe(api.Event{Type: api.EventMergeMerged, Data: map[string]any{"signal": signal}})
	}
	s := text(t, m)
	require.Contains(t, s, "polis_patrol_cycle_seconds_sum 2\n")
	require.Contains(t, s, `polis_merge_wait_seconds_count{result="merged"} 1`+"\n", "a signal that is published again counts once")
}

func TestTheHubIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, m := events.New(7), New(fixed(State{}))
		asked := time.Now()
		answer := func() {
			hub.Publish(api.Event{Type: api.EventApprovalAnswered, Data: map[string]any{"since": asked, "verdict": "approve"}})
		}
		answer() // before: of an earlier life
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); m.Follow(ctx, hub) }()
		synctest.Wait()
		for range 3 {
			answer()
		}
		synctest.Wait()
		require.Contains(t, text(t, m), `polis_approval_wait_seconds_count{result="approve"} 3`+"\n")
		cancel()
		<-done
	})
}

func TestRecentIsBounded(t *testing.T) {
	var r recent
	for i := range 3 * maxRecent {
		require.True(t, r.add(fmt.Sprint(i)))
		require.False(t, r.add(fmt.Sprint(i)))
		require.LessOrEqual(t, len(r.set), maxRecent)
	}
	require.True(t, r.add("0"))
}
