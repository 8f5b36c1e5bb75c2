package budget

import (
	"fmt"
	"math"
	"strings"
	"time"

	"polis/daemon/api/setting"
	"polis/daemon/gateway/ledger"
)

// Warn is the part of a budget at which an event is emitted, in percent.
const Warn = 80

// Used is what the agent has used of the present task and on the present day.
type Used struct{ Task, Day ledger.Counts }

// State is how far a budget is used.
type State struct {
	// Percent is of the bound that is used most, rounded down.
	Percent int
	// Bound names it, "" if there is none: the key of the configuration.
	Bound string
	// Text has the figures: Used of Limit, tokens or units of the currency.
	Text        string
	Used, Limit float64
	// Of is the task or the day that it is of, for the caller to set.
	Of string
	// Role: the agents of this role share it.
	Role string
	// Task is the task of the request that was checked, or "". The caller sets it.
	Task string
}

// Spent reports whether nothing is left.
func (s State) Spent() bool { return s.Percent >= 100 }

// OfTask reports whether the bound is that of a task; else it is that of a day.
func (s State) OfTask() bool { return strings.HasPrefix(s.Bound, "task_") }

// Check returns the state of a budget. With no task, the bounds for tasks do not apply.
func Check(b setting.ModelBudget, u Used, task bool) State {
	var worst State
	look := func(bound string, used, limit float64, unit string) {
		if limit <= 0 {
			return
		}
		percent := int(min(used/limit*100, 1000))
		if worst.Bound == "" || percent > worst.Percent {
			worst = State{Percent: percent, Bound: bound, Used: used, Limit: limit, Text: fmt.Sprintf("%s of %s%s", Figure(used), Figure(limit), unit)}
		}
	}
	if task {
		look("task_tokens", float64(u.Task.Total()), float64(b.TaskTokens), " tokens of the task")
		look("task_money", float64(u.Task.Micros)/1e6, b.TaskMoney, " of the task's money")
	}
	look("day_tokens", float64(u.Day.Total()), float64(b.DayTokens), " tokens of the day")
	look("day_money", float64(u.Day.Micros)/1e6, b.DayMoney, " of the day's money")
	return worst
}

// Raised returns what a spent bound is raised to: by as many steps, in percent of the bound, as it needs
// so that something is left.
func (s State) Raised(step int) float64 {
	one := s.Limit * float64(step) / 100
	if s.Tokens() {
		one = math.Ceil(one)
	}
	if !(one > 0) {
		return s.Limit
	}
	return s.Limit + one*(math.Floor(max(s.Used-s.Limit, 0)/one)+1)
}

// Shared is the state of a bound that a role shares: Used of Limit are tokens, or millionths of the currency.
func Shared(role, bound, day string, used, limit int64) State {
	s := State{Bound: bound, Of: day, Role: role, Used: float64(used), Limit: float64(limit)}
	unit := " tokens"
	if bound == setting.BoundDayMoney {
		s.Used, s.Limit, unit = s.Used/1e6, s.Limit/1e6, " of the money"
	}
	if s.Limit > 0 {
		s.Percent = int(min(s.Used/s.Limit*100, 1000))
	}
	s.Text = fmt.Sprintf("%s of %s%s of the day that role %s shares", Figure(s.Used), Figure(s.Limit), unit, role)
	return s
}

// Name is the bound, with the role that shares it.
func (s State) Name() string {
	if s.Role != "" {
		return s.Bound + " of role " + s.Role
	}
	return s.Bound
}

// Tokens reports whether the bound is one of tokens; else it is one of money.
func (s State) Tokens() bool { return strings.HasSuffix(s.Bound, "_tokens") }

// LeastRaise is the least amount that a spent bound can be raised by so that something is left, in its unit: a token, or
// a millionth of the currency.
func (s State) LeastRaise() float64 {
	if s.Tokens() {
		return max(s.Used-s.Limit, 0) + 1
	}
	return math.Round((max(s.Used-s.Limit, 0))*1e6+1) / 1e6
}

// Figure is a number of tokens or an amount of money as text.
func Figure(f float64) string {
	if f == float64(int64(f)) {
		return fmt.Sprintf("%d", int64(f))
	}
	return fmt.Sprintf("%.4f", f)
}

// Rate bounds the requests of one agent in any minute. It is used under the caller's lock.
type Rate struct{ sent []time.Time }

// Take counts a request, or returns how long to wait for the next. limit 0 is no bound.
func (r *Rate) Take(now time.Time, limit int) (wait time.Duration, ok bool) {
	if limit <= 0 {
		r.sent = nil
		return 0, true
	}
	old := 0
	for old < len(r.sent) && now.Sub(r.sent[old]) >= time.Minute {
		old++
	}
	r.sent = r.sent[old:]
	if len(r.sent) >= limit {
		return r.sent[len(r.sent)-limit].Add(time.Minute).Sub(now), false
	}
	r.sent = append(r.sent, now)
	return 0, true
}
