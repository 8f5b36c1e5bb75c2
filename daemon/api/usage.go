package api

// ModelUse is what agents used of model services: GET /v1/usage.
type ModelUse struct {
	// Key is the name of an agent, the ID of a task ("" for use outside of tasks), the name of a model,
	// or a day in UTC.
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
	// Cost is by currency.
	Cost map[string]float64 `json:"cost,omitempty"`
	// FirstTokenMS is the mean time to the first byte of an answer's content, in milliseconds.
	FirstTokenMS int64 `json:"first_token_ms,omitempty"`
}

// UsageBy are what uses of models can be summed by.
var UsageBy = []string{"agent", "task", "model", "day"}
