package gateway

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api/setting"
	"polis/daemon/api/wire"
	"polis/daemon/gateway/budget"
	"polis/daemon/gateway/ledger"
)

// withShared is an endpoint of an agent whose role shares a budget. wanted gets each request for the next part.
func withShared(t *testing.T, end string) (s *standIn, e *endpoint, wanted chan struct{}, grant func(upto int64, spent bool) wire.ShareUse) {
	s = newStandIn(t)
	m := all(s.URL)
	m.Shared = &wire.SharedBudget{Role: "team", Bounds: []string{setting.BoundDayTokens}}
	m.OnBudget, m.BudgetStep = end, 50
	e = newEndpoint(t, m)
	wanted = make(chan struct{}, 99)
	e.ShareWanted = func() { wanted <- struct{}{} }
	return s, e, wanted, func(upto int64, spent bool) wire.ShareUse {
		return e.Share(wire.Shares{Role: "team", Day: ledger.Day(time.Now()), Shares: []wire.Share{{Bound: setting.BoundDayTokens, Upto: upto, Spent: spent, Used: 300, Limit: 300}}})
	}
}

func TestAnAgentUsesWhatItWasGrantedOfASharedBudget(t *testing.T) {
	s, e, wanted, grant := withShared(t, setting.BudgetRefuse)
	codes := make(chan int, 9)
	send := func() { code := e.message(); codes <- code }
	go send()
	<-wanted
	require.Empty(t, codes, "without a grant nothing is sent")
	require.Zero(t, grant(50, false))
	require.Equal(t, 200, <-codes)
	<-wanted // more than half is used
	require.Equal(t, int64(100), grant(150, false).Tokens)
	require.Equal(t, 200, e.message())
	<-wanted
	require.Equal(t, wire.ShareUse{Tokens: 200}, grant(150, false), "a repetition grants nothing")
	go send()
	require.Never(t, func() bool { return len(codes) > 0 }, 50*time.Millisecond, time.Millisecond)
	e.Share(wire.Shares{Role: "other", Day: ledger.Day(time.Now()), Shares: []wire.Share{{Bound: setting.BoundDayTokens, Upto: 1e6}}})
	e.Share(wire.Shares{Role: "team", Day: "2000-01-01", Shares: []wire.Share{{Bound: setting.BoundDayTokens, Upto: 1e6}}})
	require.Never(t, func() bool { return len(codes) > 0 }, 50*time.Millisecond, time.Millisecond, "those of another role and another day are no grants")
	grant(201, false)
	require.Equal(t, 200, <-codes)
	grant(201, true)
	code, body := e.post("/anthropic/v1/messages", costs100)
	require.Equal(t, 429, code)
	require.Contains(t, body, CodeBudget)
	require.Contains(t, body, "300 of 300 tokens of the day that role team shares (day_tokens of role team)")
	code, _ = e.post("/anthropic/v1/messages/count_tokens", `{"model":"m"}`)
	require.Equal(t, 200, code, "what uses no tokens needs no grant")
	require.Equal(t, 4, s.requests)

	// Other bounds, such as after a reload, need another request to polisd; without a shared budget none does.
	m := all(s.URL)
	m.Shared = &wire.SharedBudget{Role: "team", Bounds: []string{setting.BoundDayTokens}}
	for len(wanted) > 0 {
		<-wanted
	}
	require.NoError(t, e.Set(m))
	go send()
	<-wanted
	require.NoError(t, e.Set(all(s.URL)))
	require.Equal(t, 200, <-codes)
	require.Equal(t, 200, e.message())
}

func TestARequestDoesNotWaitForPolisdForEver(t *testing.T) {
	_, e, wanted, _ := withShared(t, setting.BudgetRefuse)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan any, 1)
	go func() { done <- e.awaitShare(ctx).Code }()
	<-wanted
	<-wanted // it asks again: polisd can have been away
	cancel()
	require.Equal(t, CodeShare, <-done)
}

func TestAnAnswerToOneAgentRaisesASharedBudgetForAll(t *testing.T) {
	_, e, wanted, grant := withShared(t, setting.BudgetAsk)
	var mu sync.Mutex
	var raised []budget.State
	asked, answers := make(chan budget.State, 9), make(chan float64)
	e.Ask = func(ctx context.Context, st budget.State, to float64) (float64, error) {
		asked <- st
		select {
		case a := <-answers:
			return a, nil
		case <-ctx.Done():
			return 0, nil
		}
	}
	e.ShareRaised = func(st budget.State, to float64) {
		mu.Lock()
		defer mu.Unlock()
		st.Limit = to
		raised = append(raised, st)
	}
	grant(0, true)
	codes := make(chan int, 9)
	send := func() { code := e.message(); codes <- code }
	go send()
	st := <-asked
	require.Equal(t, "day_tokens of role team", st.Name())
	require.InDelta(t, 450, st.Raised(50), 0)
	answers <- 450
	<-wanted // the agent asks for what is left
	mu.Lock()
	require.Len(t, raised, 1)
	require.InDelta(t, 450, raised[0].Limit, 0)
	mu.Unlock()
	grant(100, false)
	require.Equal(t, 200, <-codes)

	// The question of another agent is answered: this one is withdrawn, and its request is sent.
	grant(100, true)
	go send()
	<-asked
	grant(200, false)
	require.Equal(t, 200, <-codes)

	// A denial is one for this agent.
	grant(200, true)
	go send()
	<-asked
	answers <- 0
	require.Equal(t, 429, <-codes)
	require.Equal(t, 429, e.message())
	require.Empty(t, asked)
}
