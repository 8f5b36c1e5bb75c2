package setting

import "math"

// ModelPrice is what a model costs from a day on, in units of the currency of its table per million
// tokens.
type ModelPrice struct {
	// Model is a pattern for the names of models, as path.Match reads it; "" is any.
	Model string `toml:"model" json:"model"`
	// From is the first day, YYYY-MM-DD in UTC; "" is any day.
	From       string  `toml:"from" json:"from,omitempty"`
	Input      float64 `toml:"input" json:"input"`
	Output     float64 `toml:"output" json:"output"`
	CacheRead  float64 `toml:"cache_read" json:"cache_read,omitempty"`
	CacheWrite float64 `toml:"cache_write" json:"cache_write,omitempty"`
}

// What happens when a model budget is spent.
const (
	BudgetRefuse = "refuse" // requests are refused; the default
	BudgetAsk    = "ask"    // the agent is frozen, and a question opens whether to raise it
	BudgetStop   = "stop"   // the agent's task ends after the answers that are open
)

// BudgetEnds are all of them.
func BudgetEnds() []string { return []string{BudgetRefuse, BudgetAsk, BudgetStop} }

// SharedBudget bounds what all agents of a role use of model services together. 0 is no bound.
type SharedBudget struct {
	// DayTokens are all kinds of tokens together, DayMoney units of the prices' currency; a day is one of UTC.
	DayTokens int64   `toml:"day_tokens" json:"day_tokens,omitempty"`
	DayMoney  float64 `toml:"day_money" json:"day_money,omitempty"`
}

// The bounds of a SharedBudget, as the configuration names them.
const (
	BoundDayTokens = "day_tokens"
	BoundDayMoney  = "day_money"
)

// Amounts returns the bounds that are set: tokens, and millionths of the currency.
func (b SharedBudget) Amounts() map[string]int64 {
	out := map[string]int64{}
	if b.DayTokens > 0 {
		out[BoundDayTokens] = b.DayTokens
	}
	if b.DayMoney > 0 {
		out[BoundDayMoney] = max(int64(math.Round(b.DayMoney*1e6)), 1)
	}
	return out
}

// ModelBudget bounds what one agent uses of model services. 0 is no bound.
type ModelBudget struct {
	RequestsPerMinute int `toml:"requests_per_minute" json:"requests_per_minute,omitempty"`
	// Tokens are all kinds of tokens together; a day is one of UTC.
	TaskTokens int64 `toml:"task_tokens" json:"task_tokens,omitempty"`
	DayTokens  int64 `toml:"day_tokens" json:"day_tokens,omitempty"`
	// Money is in units of the prices' currency.
	TaskMoney float64 `toml:"task_money" json:"task_money,omitempty"`
	DayMoney  float64 `toml:"day_money" json:"day_money,omitempty"`
}
