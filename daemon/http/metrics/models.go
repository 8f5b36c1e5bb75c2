package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"polis/daemon/gateway/ledger"
)

// ModelUse is what one agent used of one model of a service behind the gateway, ever.
type ModelUse struct {
	Agent, Workspace, Service, Model string
	ledger.Counts
	// Cost is in millionths, by currency.
	Cost map[string]int64
}

// SharedBudget is how far a bound of the budget that the agents of a role share is used today.
type SharedBudget struct {
	Role, Bound string
	// Ratio is 1 when it is spent.
	Ratio float64
}

func ofModel(name, help string, more ...string) *prometheus.Desc {
	return desc(name, help, append([]string{"agent", "workspace", "service", "model"}, more...)...)
}

var (
	modelCounters = []struct {
		desc  *prometheus.Desc
		value func(c *ledger.Counts) int64
	}{
		{ofModel("polis_model_requests_total", "Requests to models, also those that were refused or failed."), func(c *ledger.Counts) int64 { return c.Requests }},
		{ofModel("polis_model_errors_total", "Requests to models without an answer of the model."), func(c *ledger.Counts) int64 { return c.Errors }},
		{ofModel("polis_model_refused_total", "Requests to models that polis did not send."), func(c *ledger.Counts) int64 { return c.Refused }},
		{ofModel("polis_model_retries_total", "Requests to models that repeat another one, as the agent's program reports."), func(c *ledger.Counts) int64 { return c.Retries }},
		{ofModel("polis_model_cut_total", "Answers of models that did not reach their end."), func(c *ledger.Counts) int64 { return c.Cut }},
		{ofModel("polis_model_unpriced_total", "Answers of models without a price in the configuration."), func(c *ledger.Counts) int64 { return c.Unpriced }},
	}
	modelTokens = ofModel("polis_model_tokens_total", "Tokens of models, by kind (input, output, cache_read, cache_write).", "kind")
	modelCost   = ofModel("polis_model_cost_total", "Cost of the answers that have a price, by currency.", "currency")
	modelFirst  = ofModel("polis_model_first_token_seconds", "From a request to the first byte of the answer's content.")
	modelShared = desc("polis_role_model_budget_ratio", "Use of the budget for models that the agents of a role share, today; from 1 on, their requests are refused.", "role", "bound")
	modelBudget = ofAgent("polis_agent_model_budget_ratio", "Use of the agent's budget for models; from 1 on, requests are refused.")
)

func describeModels(ch chan<- *prometheus.Desc) {
	for _, c := range modelCounters {
		ch <- c.desc
	}
	ch <- modelTokens
	ch <- modelCost
	ch <- modelFirst
	ch <- modelBudget
	ch <- modelShared
}

// collectModels makes the metrics of model services. There are none for agents without requests.
func collectModels(ch chan<- prometheus.Metric, s *State) {
	for i := range s.Agents {
		if a := &s.Agents[i]; a.Models != nil && a.Models.Budget != nil {
			ch <- prometheus.MustNewConstMetric(modelBudget, prometheus.GaugeValue, float64(a.Models.Budget.Percent)/100, a.Name, a.Workspace)
		}
	}
	for _, b := range s.SharedBudgets {
		ch <- prometheus.MustNewConstMetric(modelShared, prometheus.GaugeValue, b.Ratio, b.Role, b.Bound)
	}
	for i := range s.Models {
		u := &s.Models[i]
		labels := []string{u.Agent, u.Workspace, u.Service, u.Model}
		with := func(more string) []string { return append(labels[:len(labels):len(labels)], more) }
		for _, c := range modelCounters {
			ch <- prometheus.MustNewConstMetric(c.desc, prometheus.CounterValue, float64(c.value(&u.Counts)), labels...)
		}
		for _, k := range []struct {
			kind string
			n    int64
		}{{"input", u.Input}, {"output", u.Output}, {"cache_read", u.CacheRead}, {"cache_write", u.CacheWrite}} {
			ch <- prometheus.MustNewConstMetric(modelTokens, prometheus.CounterValue, float64(k.n), with(k.kind)...)
		}
		for currency, micros := range u.Cost {
			ch <- prometheus.MustNewConstMetric(modelCost, prometheus.CounterValue, float64(micros)/1e6, with(currency)...)
		}
		if h, ok := firstTokens(&u.Counts, labels); ok {
			ch <- h
		}
	}
}

// firstTokens is the histogram of the times to the first byte; the sum is in microseconds, which do not fit in
// api.Times.
func firstTokens(c *ledger.Counts, labels []string) (prometheus.Metric, bool) {
	buckets, total := make(map[float64]uint64, len(ledger.Bounds)), uint64(0)
	for i, n := range c.First {
		total += uint64(max(n, 0))
		if i < len(ledger.Bounds) {
			buckets[float64(ledger.Bounds[i])/1e6] = total
		}
	}
	m, err := prometheus.NewConstHistogram(modelFirst, total, float64(c.FirstMicros)/1e6, buckets, labels...)
	return m, err == nil
}
