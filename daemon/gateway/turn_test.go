package gateway

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRequestsBeginOneByOneAfterAPause(t *testing.T) {
	s := newStandIn(t)
	var open atomic.Int64
	arrived, release := make(chan struct{}, 99), make(chan struct{})
	s.handle = func(w http.ResponseWriter, _ *http.Request) {
		open.Add(1)
		arrived <- struct{}{}
		<-release
		open.Add(-1)
		_, _ = w.Write([]byte(`{"usage":{"input_tokens":1,"output_tokens":1}}`))
	}
	e := newEndpoint(t, all(s.URL))
	turn := 300 * time.Millisecond
	until := time.Now().Add(200 * time.Millisecond)
	e.Pause("anthropic", until, turn)
	var done sync.WaitGroup
	for range 20 {
		done.Go(func() {
			code, _ := e.post("/anthropic/v1/messages", `{"model":"m"}`)
			require.Equal(t, 200, code)
		})
	}
	<-arrived
	require.False(t, time.Now().Before(until.Add(turn)), "the agent's turn is later than the end of the pause")
	require.Eventually(t, func() bool { return len(e.slots) == 20 }, 20*time.Second, time.Millisecond)
	require.Equal(t, int64(1), open.Load())
	release <- struct{}{}
	for range 2 {
		<-arrived
	}
	time.Sleep(20 * time.Millisecond)
	require.Equal(t, int64(2), open.Load(), "one answer without a limit: two at a time")
	close(release)
	done.Wait()
	require.Equal(t, 20, s.requests)
	require.Eventually(t, func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		v := &e.services["anthropic"].turns
		v.mu.Lock()
		defer v.mu.Unlock()
		return v.open == 0 && len(v.wait) == 0
	}, 20*time.Second, time.Millisecond)
}

func TestAnotherLimitBeginsWithOneRequestAgain(t *testing.T) {
	s := newStandIn(t)
	var refused, last atomic.Int64
	s.handle = func(w http.ResponseWriter, _ *http.Request) { // one request each 200 ms
		now := time.Now().UnixNano()
		if old := last.Load(); now-old < int64(200*time.Millisecond) || !last.CompareAndSwap(old, now) {
			refused.Add(1)
			w.Header().Set("Retry-After", "0.2")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		_, _ = w.Write([]byte(`{"usage":{"input_tokens":1,"output_tokens":1}}`))
	}
	e := newEndpoint(t, all(s.URL))
	e.Pause("anthropic", time.Now(), 0)
	var done sync.WaitGroup
	for range 10 { // programs that try again
		done.Go(func() {
			for code := 0; code != 200; {
				code, _ = e.post("/anthropic/v1/messages", `{"model":"m"}`)
			}
		})
	}
	done.Wait()
	require.LessOrEqual(t, refused.Load(), int64(30), "not all of those that wait are sent after each pause")
}
