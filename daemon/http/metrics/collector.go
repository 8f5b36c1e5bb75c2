package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"polis/daemon/api"
)

// collector turns a State into metrics. Metrics.mu is held while it is used.
type collector struct {
	source Source
	state  State
}

func (c *collector) read(ctx context.Context) { c.state = c.source(ctx) }

// global is a metric without an agent. More than one value is labelled.
type global struct {
	desc  *prometheus.Desc
	typ   prometheus.ValueType
	value func(s *State) float64
}

// perAgent is a metric of each agent that has it.
type perAgent struct {
	desc  *prometheus.Desc
	typ   prometheus.ValueType
	value func(a *api.Agent) (float64, bool)
}

// times is a histogram of each agent that has it.
type times struct {
	desc  *prometheus.Desc
	value func(t *api.AgentTimes) api.Times
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

func ofAgent(name, help string) *prometheus.Desc { return desc(name, help, "agent", "workspace") }

var (
	built  = desc("polis_build_info", "Always 1; the version is a label.", "version")
	queued = desc("polis_queue_length", "Entries of the merge queue.", "workspace")

	globals = []global{
		{desc("polis_leases", "Leases held now."), prometheus.GaugeValue, func(s *State) float64 { return float64(s.Locks.Leases) }},
		{desc("polis_lease_waiters", "Requests for leases that wait now."), prometheus.GaugeValue, func(s *State) float64 { return float64(s.Locks.Waiters) }},
		{desc("polis_leases_granted_total", "Leases granted since polisd started."), prometheus.CounterValue, func(s *State) float64 { return float64(s.Locks.Granted) }},
		{desc("polis_lock_conflicts_total", "Refused lease requests since polisd started."), prometheus.CounterValue, func(s *State) float64 { return float64(s.Locks.Conflicts) }},
		{desc("polis_lease_waits_total", "Lease requests that waited for another agent, since polisd started."), prometheus.CounterValue, func(s *State) float64 { return float64(s.Locks.Waits) }},
		{desc("polis_leases_broken_total", "Leases that a person broke since polisd started."), prometheus.CounterValue, func(s *State) float64 { return float64(s.Locks.Broken) }},
		{desc("polis_leases_stale_total", "Leases that ended because their shim was silent, since polisd started."), prometheus.CounterValue, func(s *State) float64 { return float64(s.Locks.Stale) }},
		{desc("polis_cases_open", "Open cases of the patrol."), prometheus.GaugeValue, func(s *State) float64 { return float64(s.Cases.Open) }},
	}

	agents = []perAgent{
		{ofAgent("polis_agent_up", "Whether the agent has a sandbox now."), prometheus.GaugeValue, func(a *api.Agent) (float64, bool) { return number(up(a.Status)), true }},
		{ofAgent("polis_agent_memory_bytes", "Memory of the agent's sandbox."), prometheus.GaugeValue, func(a *api.Agent) (float64, bool) { return float64(a.MemoryBytes), up(a.Status) }},
		{ofAgent("polis_agent_cpu_seconds_total", "Processor time of the agent's sandbox since it was made."), prometheus.CounterValue, func(a *api.Agent) (float64, bool) { return float64(a.CPUMicros) / 1e6, up(a.Status) }},
		{ofAgent("polis_agent_questions_open", "Questions of the agent that wait for an answer."), prometheus.GaugeValue, open(api.WaitingApproval)},
		{ofAgent("polis_agent_lease_waiters", "Operations of the agent that wait for a lease."), prometheus.GaugeValue, open(api.WaitingLease)},
		{ofAgent("polis_agent_reads_total", "Gated reads, regardless of their result."), prometheus.CounterValue, counter(func(c *api.Counters) int64 { return c.ReadCount })},
		{ofAgent("polis_agent_writes_total", "Gated writes, regardless of their result."), prometheus.CounterValue, counter(func(c *api.Counters) int64 { return c.WriteCount })},
		{ofAgent("polis_agent_reads_denied_total", "Refused reads."), prometheus.CounterValue, counter(func(c *api.Counters) int64 { return c.ReadDenied })},
		{ofAgent("polis_agent_writes_denied_total", "Refused writes, by policy and quota."), prometheus.CounterValue, counter(func(c *api.Counters) int64 { return c.WriteDenied })},
		{ofAgent("polis_agent_questions_denied_total", "Questions denied by a rule, a person or for want of an answer, but for those about paths."), prometheus.CounterValue, counter(func(c *api.Counters) int64 { return c.QuestionsDenied })},
		{ofAgent("polis_agent_lock_conflicts_total", "Writes refused because another agent holds the lease."), prometheus.CounterValue, counter(func(c *api.Counters) int64 { return c.LockConflicts })},
		{ofAgent("polis_agent_read_latency_ns", "Moving average of a gated read: (old * 9 + new) / 10."), prometheus.GaugeValue, counter(func(c *api.Counters) int64 { return c.AvgReadLatency })},
		{ofAgent("polis_agent_write_latency_ns", "Moving average of a gated write: (old * 9 + new) / 10."), prometheus.GaugeValue, counter(func(c *api.Counters) int64 { return c.AvgWriteLatency })},
	}

	histograms = []times{
		{ofAgent("polis_agent_read_duration_seconds", "Durations of gated reads."), func(t *api.AgentTimes) api.Times { return t.Reads }},
		{ofAgent("polis_agent_write_duration_seconds", "Durations of gated writes, waits for leases and answers included."), func(t *api.AgentTimes) api.Times { return t.Writes }},
		{ofAgent("polis_agent_lease_wait_seconds", "Durations of the requests for leases that the agent's shim sent to polisd."), func(t *api.AgentTimes) api.Times { return t.LeaseWaits }},
	}
)

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func counter(f func(*api.Counters) int64) func(*api.Agent) (float64, bool) {
	return func(a *api.Agent) (float64, bool) {
		if a.Counters == nil {
			return 0, false
		}
		return float64(f(a.Counters)), true
	}
}

// open is the number of what the agent waits for, if that is of the kind.
func open(kind string) func(a *api.Agent) (float64, bool) {
	return func(a *api.Agent) (float64, bool) {
		if a.Waiting == nil || a.Waiting.For != kind {
			return 0, up(a.Status)
		}
		return float64(max(a.Waiting.Open, 1)), true
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- built
	ch <- queued
	for _, g := range globals {
		ch <- g.desc
	}
	for _, g := range agents {
		ch <- g.desc
	}
	for _, g := range histograms {
		ch <- g.desc
	}
	describeModels(ch)
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := &c.state
	ch <- prometheus.MustNewConstMetric(built, prometheus.GaugeValue, 1, s.Version)
	for name, n := range s.Queued {
		ch <- prometheus.MustNewConstMetric(queued, prometheus.GaugeValue, float64(n), name)
	}
	for _, g := range globals {
		ch <- prometheus.MustNewConstMetric(g.desc, g.typ, g.value(s))
	}
	collectModels(ch, s)
	for i := range s.Agents {
		a := &s.Agents[i]
		for _, g := range agents {
			if v, ok := g.value(a); ok {
				ch <- prometheus.MustNewConstMetric(g.desc, g.typ, v, a.Name, a.Workspace)
			}
		}
		if a.Times == nil {
			continue
		}
		for _, g := range histograms {
			if h, ok := histogram(g.desc, a.Times.Bounds, g.value(a.Times), a.Name, a.Workspace); ok {
				ch <- h
			}
		}
	}
}

// histogram sums the buckets up, as the format wants it. It returns false for buckets that do not fit
// their bounds, which a shim of another version can send.
func histogram(d *prometheus.Desc, bounds []int64, t api.Times, labels ...string) (prometheus.Metric, bool) {
	if len(t.Counts) != len(bounds)+1 {
		return nil, false
	}
	buckets, total := make(map[float64]uint64, len(bounds)), uint64(0)
	for i, n := range t.Counts {
		total += uint64(max(n, 0))
		if i < len(bounds) {
			buckets[float64(bounds[i])/1e9] = total
		}
	}
	m, err := prometheus.NewConstHistogram(d, total, float64(t.SumNanos)/1e9, buckets, labels...)
	return m, err == nil
}
