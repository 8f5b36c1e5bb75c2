package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api/wire"
)

const renewedKey = "sk-renewed-0123456789abc"

// locked answers 401 to every key but the good one, and says what it got.
type locked struct {
	good     atomic.Value
	mu       sync.Mutex
	keys     []string
	inFlight chan struct{} // if not nil, a refusal waits for it
}

func (l *locked) answer(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") + r.Header.Get("X-Api-Key") + r.Header.Get("Private-Token")
	l.mu.Lock()
	l.keys = append(l.keys, key)
	l.mu.Unlock()
	if key != l.good.Load() {
		if l.inFlight != nil {
			<-l.inFlight
		}
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error":"bad key %s"}`, key)
		return
	}
	fmt.Fprintf(w, `{"usage":{"input_tokens":3,"output_tokens":4},"key":%q}`, key)
}

func (l *locked) got() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.keys
	l.keys = nil
	return k
}

func rekeyed(url, key string) wire.Models {
	m := all(url)
	m.Services = web(url).Services
	for i := range m.Models {
		m.Models[i].Key = key
	}
	for i := range m.Services {
		m.Services[i].Key = key
	}
	return m
}

func newLocked(t *testing.T, good string) (*locked, *standIn, *endpoint) {
	l := &locked{}
	l.good.Store(good)
	s := newStandIn(t)
	s.handle = l.answer
	e := newEndpoint(t, rekeyed(s.URL, realKey))
	return l, s, e
}

func TestARefusedRequestIsSentOnceMoreWithANewKey(t *testing.T) {
	l, s, e := newLocked(t, renewedKey)
	var asked atomic.Int64
	e.KeyRefused = func(string) {
		asked.Add(1)
		go func() { _ = e.Set(rekeyed(s.URL, renewedKey)) }()
	}
	for name, request := range map[string]func() (int, string){
		"model": func() (int, string) { return e.post("/anthropic/v1/messages", `{"model":"m"}`) },
		"model without a body": func() (int, string) {
			resp := e.do("GET", "/openai/v1/models", "")
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			return resp.StatusCode, string(b)
		},
		"service": func() (int, string) {
			resp := e.do("GET", "/tracker/items/1", "")
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			return resp.StatusCode, string(b)
		},
		"service with a body": func() (int, string) { return e.post("/tracker/items/1/notes", "a note") },
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, e.Set(rekeyed(s.URL, realKey)))
			e.mu.Lock()
			clear(e.refusals)
			e.mu.Unlock()
			s.mu.Lock()
			s.bodies = nil
			s.mu.Unlock()
			asked.Store(0)
			status, text := request()
			require.Equal(t, http.StatusOK, status, text)
			require.Contains(t, text, strings.Repeat("*", len(renewedKey)), "the new key is removed as well")
			require.Equal(t, []string{realKey, renewedKey}, l.got())
			require.Equal(t, int64(1), asked.Load())
			s.mu.Lock()
			require.Equal(t, s.bodies[0], s.bodies[1])
			s.mu.Unlock()
		})
	}
	c := e.total()
	require.Equal(t, int64(2), c.Requests, "a request is one, however often it is sent")
	require.Zero(t, c.Errors)
	require.Equal(t, int64(4), c.Output)
}

func TestASecondRefusalReachesTheAgent(t *testing.T) {
	l, s, e := newLocked(t, "sk-another-one-altogether")
	var asked atomic.Int64
	e.KeyRefused = func(string) {
		asked.Add(1)
		go func() { _ = e.Set(rekeyed(s.URL, renewedKey)) }()
	}
	for path, body := range map[string]string{"/anthropic/v1/messages": `{"model":"m"}`, "/tracker/items/1/notes": "x"} {
		status, text := e.post(path, body)
		require.Equal(t, http.StatusUnauthorized, status)
		require.NotContains(t, text, renewedKey)
		require.NotContains(t, text, realKey)
		require.Equal(t, []string{realKey, renewedKey}, l.got())
		status, _ = e.post(path, body)
		require.Equal(t, http.StatusUnauthorized, status)
		require.Equal(t, []string{renewedKey}, l.got(), "it is no loop")
		require.Equal(t, int64(1), asked.Load())
		asked.Store(0)
		require.NoError(t, e.Set(rekeyed(s.URL, realKey)))
		l.got()
	}
	require.Equal(t, int64(2), e.total().Errors)
}

func TestARefusalWithoutAnotherKeyIsNotHeldBack(t *testing.T) {
	l, s, e := newLocked(t, renewedKey)
	e.renew = time.Minute
	e.KeyRefused = func(string) { go func() { _ = e.Set(rekeyed(s.URL, realKey)) }() } // polisd has no other one
	began := time.Now()
	for range 3 {
		status, _ := e.post("/anthropic/v1/messages", `{"model":"m"}`)
		require.Equal(t, http.StatusUnauthorized, status)
	}
	require.Less(t, time.Since(began), 50*time.Second, "it waits for the answer of polisd, and not for the time")
	require.Len(t, l.got(), 3)
	// Without polisd the wait is bounded.
	e.KeyRefused = func(string) {}
	e.mu.Lock()
	clear(e.refusals)
	e.mu.Unlock()
	e.renew = 30 * time.Millisecond
	status, _ := e.post("/anthropic/v1/messages", `{"model":"m"}`)
	require.Equal(t, http.StatusUnauthorized, status)
}

func TestRequestsThatAreOpenWhenTheKeyChangesAreSentAgain(t *testing.T) {
	l, s, e := newLocked(t, renewedKey)
	l.inFlight = make(chan struct{})
	e.KeyRefused = func(string) { go func() { _ = e.Set(rekeyed(s.URL, renewedKey)) }() }
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			status, text := e.post("/anthropic/v1/messages", `{"model":"m"}`)
			if status != http.StatusOK {
				t.Error(status, text)
			}
		})
	}
	require.Eventually(t, func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.keys) == 10 }, time.Minute, time.Millisecond)
	close(l.inFlight)
	wg.Wait()
	require.Len(t, l.got(), 20)
	require.Equal(t, int64(10), e.total().Requests)
}

func TestAnotherAddressDoesNotGetTheRequest(t *testing.T) {
	l, s, e := newLocked(t, renewedKey)
	other := newStandIn(t)
	e.KeyRefused = func(string) { go func() { _ = e.Set(rekeyed(other.URL, renewedKey)) }() }
	status, _ := e.post("/anthropic/v1/messages", `{"model":"m"}`)
	require.Equal(t, http.StatusUnauthorized, status, "the service is another one now")
	require.Len(t, l.got(), 1)
	require.Zero(t, other.requests)
	_ = s
}
