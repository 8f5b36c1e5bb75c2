package gateway

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"time"

	"polis/daemon/api/setting"
	"polis/daemon/gateway/budget"
	"polis/daemon/gateway/ledger"
	"polis/daemon/gateway/provider"
	"polis/daemon/gateway/raise"
)

const (
	// maxQuestions bounds what is known about questions to raise a budget.
	maxQuestions = 256
	// stopEvery is how often Stop is called again while requests are refused: the first call may have been
	// lost with polisd.
	stopEvery = 10 * time.Second
)

// spent is what happens when the budget is spent. Gateway.mu guards it.
type spent struct {
	end       string // one of setting.BudgetEnds
	step      int    // of a raise, in percent of the bound
	questions map[string]*question
	open      int // requests that are sent
	stopped   time.Time
}

// question asks a person to raise a budget, once for each value of a bound.
type question struct {
	done   chan struct{}
	denied bool
	// role shares the budget; then cancel withdraws the question when another agent's was answered, and moot is set.
	role   string
	cancel context.CancelFunc
	moot   bool
}

func spentFailure(st budget.State, w Work) *provider.Failure {
	f := &provider.Failure{Status: http.StatusTooManyRequests, Code: CodeBudget,
		Message: fmt.Sprintf("the budget is spent: %s (%s). A person can raise it; do not retry", st.Text, st.Name())}
	if w.leaves(st) {
		f.Message = fmt.Sprintf("the budget of task %s, which has ended, is spent: %s (%s). What a task leaves running uses its budget; do not retry", w.Task, st.Text, st.Name())
	}
	return f
}

// leaves reports whether a bound is that of a task that has ended: no question is whether to raise it, and there is nothing to stop.
func (w Work) leaves(st budget.State) bool { return w.Over && st.OfTask() }

// present is what the agent works on now.
func (g *Gateway) present() Work { return g.Work(netip.AddrPort{}) }

// withinBudget decides a request by the budget. If that is spent and a person may raise it, the request
// waits for the answer. tokens: the request uses some.
func (g *Gateway) withinBudget(ctx context.Context, w Work, tokens bool) *provider.Failure {
	for tokens {
		if f := g.awaitShare(ctx); f != nil {
			return f
		}
		g.mu.Lock()
		st := g.state(w)
		if !st.Spent() {
			g.mu.Unlock()
			return nil
		}
		var q *question
		if g.spent.end == setting.BudgetAsk && !w.leaves(st) {
			q = g.question(st)
		}
		g.mu.Unlock()
		if q == nil {
			g.stopIfIdle()
			return spentFailure(st, w)
		}
		select {
		case <-q.done:
		case <-ctx.Done():
			return spentFailure(st, w)
		}
		if q.denied {
			return spentFailure(st, w)
		}
	}
	return nil
}

// question returns the question about a state, and asks it if it is new. g.mu is held.
func (g *Gateway) question(st budget.State) *question {
	key := fmt.Sprintf("%s %s %v %s", st.Bound, st.Of, st.Limit, st.Role)
	if q := g.spent.questions[key]; q != nil {
		return q
	}
	if len(g.spent.questions) >= maxQuestions {
		maps.DeleteFunc(g.spent.questions, func(_ string, q *question) bool {
			select {
			case <-q.done:
				return true
			default:
				return false
			}
		})
	}
	ctx, cancel := context.WithCancel(g.ctx)
	q := &question{done: make(chan struct{}), role: st.Role, cancel: cancel}
	g.spent.questions[key] = q
	to := st.Raised(g.spent.step)
	g.asking.Go(func() {
		defer close(q.done)
		defer cancel()
		raised, err := g.Ask(ctx, st, to)
		if raised > 0 && st.Role != "" {
			g.ShareRaised(st, raised)
			g.unspent(st.Bound)
		} else if raised > 0 {
			// With an error it counts until the shim ends.
			if aerr := g.Raises.Add(raise.Raise{Bound: st.Bound, Of: st.Of, To: raised}); aerr != nil {
				g.Log.Error("raised model budget not kept", "err", aerr)
			}
		}
		if err != nil {
			g.Log.Warn("no question about the model budget", "err", err)
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		if q.denied = raised <= 0 && !q.moot; !q.denied || err != nil {
			delete(g.spent.questions, key) // the next request asks again if it needs to
		}
	})
	return q
}

// sending counts a request that is sent; the function it returns is called after its end.
func (g *Gateway) sending() func() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.spent.open++
	return func() {
		g.mu.Lock()
		g.spent.open--
		g.mu.Unlock()
		g.stopIfIdle()
	}
}

// stopIfIdle has the agent's present work stopped if its budget is spent, that is to be so, and no answer is open.
func (g *Gateway) stopIfIdle() {
	g.mu.Lock()
	may := g.mayStop()
	g.mu.Unlock()
	if !may {
		return
	}
	w := g.present()
	g.mu.Lock()
	st := g.state(w)
	if may = st.Spent() && g.mayStop(); may {
		g.spent.stopped = g.Now()
	}
	g.mu.Unlock()
	if may {
		g.Stop(st)
	}
}

// mayStop reports whether the agent's work is to be stopped now if its budget is spent. g.mu is held.
func (g *Gateway) mayStop() bool {
	return g.spent.end == setting.BudgetStop && g.spent.open == 0 && g.Now().Sub(g.spent.stopped) >= stopEvery
}

// state returns the state of the budget that is spent, or that of the agent. g.mu is held.
func (g *Gateway) state(w Work) budget.State {
	if st := g.sharedState(); st.Spent() {
		st.Task = w.Task
		return st
	}
	return g.ownState(w)
}

// ownState returns the state of the agent's own budget. g.mu is held.
func (g *Gateway) ownState(w Work) budget.State {
	if g.budget == (setting.ModelBudget{}) {
		return budget.State{Task: w.Task}
	}
	task, day := w.Task, ledger.Day(g.Now())
	u := budget.Used{Day: g.Ledger.Sum(func(k ledger.Key) bool { return k.Day == day })}
	if task != "" {
		u.Task = g.Ledger.Sum(func(k ledger.Key) bool { return k.Task == task })
	}
	st := budget.Check(g.Raises.Over(g.budget, task, day), u, task != "")
	if st.Of, st.Task = day, task; st.OfTask() {
		st.Of = task
	}
	return st
}
