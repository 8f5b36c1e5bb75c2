package gateway

import (
	"context"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api/setting"
	"polis/daemon/gateway/budget"
	"polis/daemon/gateway/ledger"
)

// TestWhatATaskLeftRunningUsesItsBudget: it is refused when that is spent, whatever happens when the budget of a task that
// runs is spent; a bound of the day is that of the agent.
func TestWhatATaskLeftRunningUsesItsBudget(t *testing.T) {
	for _, end := range []string{setting.BudgetRefuse, setting.BudgetAsk, setting.BudgetStop} {
		t.Run(end, func(t *testing.T) {
			_, e := withEnd(t, end)
			m := all(e.services["anthropic"].config.URL)
			m.OnBudget, m.BudgetStep, m.Budget = end, 50, setting.ModelBudget{TaskTokens: 150, DayTokens: 1000}
			require.NoError(t, e.Set(m))
			asked, stopped := make(chan budget.State, 9), make(chan budget.State, 9)
			e.Ask = func(_ context.Context, st budget.State, to float64) (float64, error) { asked <- st; return to, nil }
			e.Stop = func(st budget.State) { stopped <- st }
			var now, left atomic.Pointer[Work]
			none := &Work{}
			e.Work = func(from netip.AddrPort) Work {
				if w := left.Load(); from.IsValid() && w != nil {
					return *w
				}
				return *now.Load()
			}
			now.Store(&Work{Task: "a.1"})
			require.Equal(t, 200, e.message())

			now.Store(none)
			left.Store(&Work{Task: "a.1", Over: true})
			require.Equal(t, 200, e.message(), "100 of 150")
			code, text := e.post("/anthropic/v1/messages", costs100)
			require.Equal(t, 429, code)
			require.Contains(t, text, "the budget of task a.1, which has ended, is spent: 200 of 150 tokens of the task (task_tokens)")
			require.Empty(t, asked, "no question is about a task that has ended")
			require.Empty(t, stopped, "it has ended")
			require.Equal(t, int64(200), e.Ledger.Sum(func(k ledger.Key) bool { return k.Task == "a.1" }).Total())

			now.Store(&Work{Task: "a.2"})
			require.Equal(t, 429, e.message(), "another task has a budget of its own, which is not for this one")
			left.Store(nil)
			require.Equal(t, 200, e.message())

			if end == setting.BudgetRefuse {
				return
			}
			m.Budget = setting.ModelBudget{DayTokens: 300}
			require.NoError(t, e.Set(m))
			left.Store(&Work{Task: "a.1", Over: true})
			code = e.message()
			if end == setting.BudgetAsk {
				require.Equal(t, 200, code)
				require.Equal(t, "day_tokens", (<-asked).Bound)
				return
			}
			require.Equal(t, 429, code)
			select {
			case st := <-stopped:
				require.Equal(t, "a.2", st.Task, "what is stopped is the present task")
				require.Equal(t, "day_tokens", st.Bound)
			case <-time.After(20 * time.Second):
				t.Fatal("not stopped")
			}
		})
	}
}
