package api

import "math"

// ModelUse is what agents used of model services: GET /v1/usage.
type ModelUse struct {
	// Key is the name of an agent, the ID of a task ("" for use outside of tasks), the name of a model,
	// a day in UTC, or a role ("" for agents without one, and for those whose removal is long ago).
	Key      string `json:"key"`
	Requests int64  `json:"requests"`
	// Errors got no answer of the model, Refused were not sent by polis, Retries are repetitions.
	Errors  int64 `json:"errors,omitempty"`
	Refused int64 `json:"refused,omitempty"`
	Retries int64 `json:"retries,omitempty"`
	// Cut are answers that did not reach their end, Estimated those whose tokens polis estimated.
	Cut       int64 `json:"cut,omitempty"`
	Estimated int64 `json:"estimated,omitempty"`
	// Tokens; InputTokens has neither of the cached ones.
	InputTokens      int64 `json:"input_tokens"`
	OutputTokens     int64 `json:"output_tokens"`
	CacheReadTokens  int64 `json:"cache_read_tokens,omitempty"`
	CacheWriteTokens int64 `json:"cache_write_tokens,omitempty"`
	// Cost is by currency, of the answers whose price is configured. Unpriced are the others: without a
	// price polis knows no cost, and Cost is less than what was used costs.
	Cost     map[string]float64 `json:"cost,omitempty"`
	Unpriced int64              `json:"unpriced,omitempty"`
	// FirstTokenMS is the mean time to the first byte of an answer's content, in milliseconds.
	FirstTokenMS int64 `json:"first_token_ms,omitempty"`
	// Budget is how far the budget of an agent is used; missing if it has none. In a sum by role it is the
	// budget that the role shares; other sums have none.
	Budget *ModelBudgetUse `json:"budget,omitempty"`
}

// Tokens is the sum of all kinds.
func (u ModelUse) Tokens() int64 {
	return sum(u.InputTokens, u.OutputTokens, u.CacheReadTokens, u.CacheWriteTokens)
}

// sum adds counts; what is too large is the largest number.
func sum(counts ...int64) int64 {
	var all uint64
	for _, n := range counts {
		all = min(all+uint64(max(n, 0)), math.MaxInt64)
	}
	return int64(all)
}

// Add adds the requests, tokens and costs of o.
func (u *ModelUse) Add(o ModelUse) {
	for _, f := range [][2]*int64{{&u.Requests, &o.Requests}, {&u.Errors, &o.Errors}, {&u.Refused, &o.Refused}, {&u.Retries, &o.Retries}, {&u.Cut, &o.Cut},
		{&u.Estimated, &o.Estimated}, {&u.Unpriced, &o.Unpriced}, {&u.InputTokens, &o.InputTokens}, {&u.OutputTokens, &o.OutputTokens},
		{&u.CacheReadTokens, &o.CacheReadTokens}, {&u.CacheWriteTokens, &o.CacheWriteTokens}} {
		*f[0] = sum(*f[0], *f[1])
	}
	for currency, f := range o.Cost {
		if u.Cost == nil {
			u.Cost = map[string]float64{}
		}
		u.Cost[currency] += f
	}
}

// ModelBudgetUse is how far a budget is used.
type ModelBudgetUse struct {
	// Percent is of the bound that is used most; from 100 on, requests are refused.
	Percent int `json:"percent"`
	// Bound is its key in the configuration, Text has the figures. Role: it is of the budget that the agents of this role
	// share.
	Bound string `json:"bound"`
	Role  string `json:"role,omitempty"`
	Text  string `json:"text"`
}

// UsageBy are what uses of models can be summed by.
var UsageBy = []string{"agent", "task", "model", "day", "role"}
