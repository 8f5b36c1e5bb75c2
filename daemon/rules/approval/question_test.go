package approval

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestAnAnswerRaisesABudgetByAnAmountInItsUnit(t *testing.T) {
	tokens, money := &Raise{Least: 81, Whole: true, Unit: "tokens"}, &Raise{Least: 0.5, Unit: "units of the currency"}
	for name, c := range map[string]struct {
		of   *Raise
		a    api.Answer
		hint string // "-": it is accepted
	}{
		"tokens":         {tokens, api.Answer{Raise: 81}, "-"},
		"money":          {money, api.Answer{Raise: 0.5, Scope: api.ScopeOnce}, "-"},
		"no amount":      {nil, api.Answer{Scope: api.ScopeAgent}, "-"},
		"no budget":      {nil, api.Answer{Raise: 81}, "answer it without an amount"},
		"used already":   {tokens, api.Answer{Raise: 80}, "raise it by 81 tokens or more"},
		"too little":     {money, api.Answer{Raise: 0.49}, "raise it by 0.5 units of the currency or more"},
		"half a token":   {tokens, api.Answer{Raise: 81.5}, "the unit is that of the budget"},
		"below 0":        {money, api.Answer{Raise: -1}, "the unit is that of the budget"},
		"no number":      {money, api.Answer{Raise: math.NaN()}, "the unit is that of the budget"},
		"beyond bounds":  {money, api.Answer{Raise: 1e16}, "the unit is that of the budget"},
		"denied":         {tokens, api.Answer{Raise: 81, Verdict: api.VerdictDeny}, "approve it, or answer it without an amount"},
		"for the future": {tokens, api.Answer{Raise: 81, Scope: api.ScopeRole, Role: "r"}, "answer it once"},
	} {
		t.Run(name, func(t *testing.T) {
			q := &Queue{Agent: "ana"}
			caller, err := q.Ask(Question{Kind: api.ApprovalBudget, Text: "raise", Raise: c.of}, time.Now().Add(time.Hour))
			require.NoError(t, err)
			if c.a.Verdict == "" {
				c.a.Verdict = api.VerdictApprove
			}
			done, err := q.Answer(caller.ID(), c.a)
			a, answered := caller.Leave()
			if c.hint == "-" {
				require.NoError(t, err)
				require.Equal(t, c.a.Raise, a.Raise) //nolint:testifylint // it is passed on
				require.Equal(t, c.a.Raise, done.Approval.Answer.Raise)
				return
			}
			require.Equal(t, api.CodeBadRequest, api.CodeOf(err))
			var e *api.Error
			require.True(t, errors.As(err, &e))
			require.Contains(t, e.Hint, c.hint)
			require.False(t, answered, "the question stays open")
		})
	}
}
