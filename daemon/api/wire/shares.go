package wire

// SharedBudget is a budget that the agents of a role share. An agent uses only what it has been granted of it.
type SharedBudget struct {
	Role string `json:"role"`
	// Bounds are those that are set, as setting.SharedBudget names them.
	Bounds []string `json:"bounds"`
}

// Shares is what an agent may use of a shared budget: POST /v1/models/shares, since [SharesVersion]. It replaces what the
// agent was granted of these bounds, and its repetition changes nothing. The answer is a ShareUse.
type Shares struct {
	Role string `json:"role"`
	// Day is YYYY-MM-DD in UTC.
	Day    string  `json:"day"`
	Shares []Share `json:"shares"`
}

// Share is what an agent may use of one bound. Amounts are tokens, or millionths of the currency.
type Share struct {
	Bound string `json:"bound"`
	// Upto is what all that the agent uses on the day may reach.
	Upto int64 `json:"upto"`
	// Spent: all agents of the role have used Used of Limit, and nothing is left.
	Spent bool  `json:"spent,omitempty"`
	Used  int64 `json:"used,omitempty"`
	Limit int64 `json:"limit,omitempty"`
}

// ShareUse is what an agent has used on the day.
type ShareUse struct {
	Tokens int64 `json:"tokens"`
	Micros int64 `json:"micros"`
}

// Of returns the amount of a bound.
func (u ShareUse) Of(bound string) int64 {
	if bound == "day_money" {
		return u.Micros
	}
	return u.Tokens
}
