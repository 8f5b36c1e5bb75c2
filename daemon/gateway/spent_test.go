package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api/setting"
	"polis/daemon/gateway/budget"
	"polis/daemon/gateway/raise"
)

const costs100 = `{"model":"m","in":99,"max_tokens":1}`

// withEnd is an endpoint with a budget for each day of 100 tokens.
func withEnd(t *testing.T, end string) (*standIn, *endpoint) {
	s := newStandIn(t)
	m := all(s.URL)
	m.Budget, m.OnBudget, m.BudgetStep = setting.ModelBudget{DayTokens: 100}, end, 50
	e := newEndpoint(t, m)
	var err error
	e.Raises, err = raise.Open(t.TempDir())
	require.NoError(t, err)
	return s, e
}

func (e *endpoint) message() int { code, _ := e.post("/anthropic/v1/messages", costs100); return code }

func TestASpentBudgetAsksAPerson(t *testing.T) {
	s, e := withEnd(t, setting.BudgetAsk)
	type answer struct {
		raised bool
		err    error
	}
	asked, answers := make(chan budget.State, 9), make(chan answer)
	e.Ask = func(ctx context.Context, st budget.State, to float64) (float64, error) {
		st.Limit = to
		asked <- st
		select {
		case a := <-answers:
			if !a.raised {
				to = 0
			}
			return to, a.err
		case <-ctx.Done():
			return 0, nil
		}
	}
	codes := make(chan int, 9)
	send := func() { code := e.message(); codes <- code }
	require.Equal(t, 200, e.message())
	require.Empty(t, asked, "the next request asks")

	go send()
	st := <-asked
	require.Equal(t, "day_tokens", st.Bound)
	require.InDelta(t, 150, st.Limit, 0)
	go send()
	require.Eventually(t, func() bool { return len(e.slots) == 2 }, 20*time.Second, time.Millisecond)
	code, _ := e.post("/anthropic/v1/messages/count_tokens", `{"model":"m"}`)
	require.Equal(t, 200, code, "what uses no tokens does not wait")
	require.Empty(t, codes)
	require.Empty(t, asked, "both wait for one question")

	answers <- answer{err: errors.New("too many questions")}
	require.Equal(t, 429, <-codes)
	require.Equal(t, 429, <-codes)
	go send()
	<-asked // an error is no answer
	answers <- answer{raised: true}
	require.Equal(t, 200, <-codes)

	go send()
	st = <-asked
	require.Equal(t, "200 of 150 tokens of the day", st.Text)
	require.InDelta(t, 225, st.Limit, 0, "so that something is left")
	answers <- answer{raised: false}
	require.Equal(t, 429, <-codes)
	require.Equal(t, 429, e.message(), "a denial counts until the bound changes")
	require.Empty(t, asked)
	require.Equal(t, 3, s.requests)

	// A question does not outlive its endpoint, nor its requests the program that sent them.
	e.Work = working("a.1")
	m := all(s.URL)
	m.Budget, m.OnBudget, m.BudgetStep = setting.ModelBudget{DayTokens: 199}, setting.BudgetAsk, 50
	require.NoError(t, e.Set(m))
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		r, err := http.NewRequestWithContext(ctx, "POST", e.url+"/anthropic/v1/messages", strings.NewReader(costs100))
		if err == nil {
			_, err = (&http.Transport{DisableKeepAlives: true}).RoundTrip(r) //nolint:bodyclose // there is no answer
		}
		gone <- err
	}()
	<-asked
	cancel()
	require.ErrorIs(t, <-gone, context.Canceled)
	require.Eventually(t, func() bool { return len(e.slots) == 0 }, 20*time.Second, time.Millisecond)
}

func TestASpentBudgetStopsAfterTheAnswersThatAreOpen(t *testing.T) {
	s, e := withEnd(t, setting.BudgetStop)
	stopped := make(chan budget.State, 9)
	var later atomic.Int64
	start := time.Now()
	e.Now = func() time.Time { return start.Add(time.Duration(later.Load())) }
	e.Stop = func(st budget.State) { stopped <- st }
	s.next = make(chan struct{})
	resp := e.do("POST", "/anthropic/v1/messages", `{"model":"m","stream":true,"in":1,"max_tokens":2}`)
	require.Equal(t, 200, e.message())
	require.Equal(t, 429, e.message(), "no other request is sent")
	require.Empty(t, stopped, "an answer is open")
	s.next <- struct{}{}
	s.next <- struct{}{}
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Contains(t, string(b), "message_stop", "it reached its end")
	require.Equal(t, "103 of 100 tokens of the day", (<-stopped).Text)
	require.Equal(t, 429, e.message())
	require.Empty(t, stopped, "not for each refused request")
	later.Store(int64(stopEvery))
	require.Equal(t, 429, e.message())
	require.NotEmpty(t, stopped, "the first can have been lost")
}
