package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api/wire"
	"polis/daemon/gateway/ledger"
	"polis/daemon/gateway/usage"
)

const realKey = "sk-real-0123456789abcdef"

// cutBody ends what a standIn has of a body that did not reach its end.
const cutBody = " (cut)"

// standIn is a model service with its own count of what it sent.
type standIn struct {
	*httptest.Server
	mu       sync.Mutex
	requests int
	tokens   usage.Tokens
	seen     []*http.Request
	bodies   []string
	// handle replaces the answer, if not nil.
	handle http.HandlerFunc
	// cutAt ends a stream after so many tokens; -1: never.
	cutAt int
	next  chan struct{} // if not nil, each token of a stream waits for it
}

func newStandIn(t *testing.T) *standIn {
	s := &standIn{cutAt: -1}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP is part of http.Handler.
func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		b = append(b, cutBody...)
	}
	s.mu.Lock()
	s.requests++
	s.seen, s.bodies = append(s.seen, r), append(s.bodies, string(b))
	handle, cut := s.handle, s.cutAt
	s.mu.Unlock()
	if handle != nil {
		handle(w, r)
		return
	}
	var req struct {
		Stream    bool
		Max       int `json:"max_tokens"`
		In, Cache int64
		Options   struct {
			Usage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	_ = json.Unmarshal(b, &req)
	switch {
	case strings.HasSuffix(r.URL.Path, "/messages"):
		s.messages(w, req.Stream, req.Max, req.In, req.Cache, cut)
	case strings.HasSuffix(r.URL.Path, "/chat/completions"):
		s.chat(w, req.Stream, req.Options.Usage, req.Max, req.In)
	case strings.HasSuffix(r.URL.Path, "/responses"):
		fmt.Fprintf(w, `{"id":"r","status":"completed","usage":{"input_tokens":%d,"output_tokens":%d,"input_tokens_details":{"cached_tokens":%d}}}`, req.In+req.Cache, req.Max, req.Cache)
		s.add(usage.Tokens{Input: req.In, Output: int64(req.Max), CacheRead: req.Cache})
	case strings.Contains(r.URL.Path, "enerateContent"):
		fmt.Fprintf(w, `{"candidates":[],"usageMetadata":{"promptTokenCount":%d,"candidatesTokenCount":%d}}`, req.In, req.Max)
		s.add(usage.Tokens{Input: req.In, Output: int64(req.Max)})
	default:
		fmt.Fprint(w, `{"data":[]}`)
	}
}

func (s *standIn) add(t usage.Tokens) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens.Input += t.Input
	s.tokens.Output += t.Output
	s.tokens.CacheRead += t.CacheRead
	s.tokens.CacheWrite += t.CacheWrite
}

func (s *standIn) messages(w http.ResponseWriter, stream bool, n int, in, cache int64, cut int) {
	if !stream {
		s.add(usage.Tokens{Input: in, Output: int64(n), CacheRead: cache})
		fmt.Fprintf(w, `{"type":"message","content":[{"type":"text","text":"it said \"usage\""}],"usage":{"input_tokens":%d,"output_tokens":%d,"cache_read_input_tokens":%d}}`, in, n, cache)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	send := func(e, data string) {
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e, data)
		w.(http.Flusher).Flush()
	}
	s.add(usage.Tokens{Input: in, CacheRead: cache})
	send("message_start", fmt.Sprintf(`{"type":"message_start","message":{"usage":{"input_tokens":%d,"cache_read_input_tokens":%d,"output_tokens":0}}}`, in, cache))
	for i := range n {
		if i == cut {
			panic(http.ErrAbortHandler)
		}
		if s.next != nil {
			<-s.next
		}
		s.add(usage.Tokens{Output: 1})
		send("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"w"}}`)
	}
	send("message_delta", fmt.Sprintf(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":%d}}`, n))
	send("message_stop", `{"type":"message_stop"}`)
}

func (s *standIn) chat(w http.ResponseWriter, stream, withUsage bool, n int, in int64) {
	s.add(usage.Tokens{Input: in, Output: int64(n)})
	u := fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d}`, in, n)
	if !stream {
		fmt.Fprintf(w, `{"object":"chat.completion","choices":[],"usage":%s}`, u)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for range n {
		fmt.Fprint(w, `data: {"choices":[{"delta":{"content":"w"}}],"usage":null}`+"\n\n")
	}
	if withUsage {
		fmt.Fprintf(w, `data: {"choices":[],"usage":%s}`+"\n\n", u)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// endpoint is the Gateway of one agent.
type endpoint struct {
	*Gateway
	t   *testing.T
	url string
}

func newEndpoint(t *testing.T, m wire.Models) *endpoint { return newEndpointIn(t, t.TempDir(), m) }

// newEndpointIn has its ledger in dir.
func newEndpointIn(t *testing.T, dir string, m wire.Models) *endpoint {
	l, err := ledger.Open(dir)
	require.NoError(t, err)
	g := New()
	g.Log = slog.New(slog.DiscardHandler)
	g.Ledger = l
	require.NoError(t, g.Set(m))
	s := httptest.NewUnstartedServer(nil)
	g.Serve(context.WithoutCancel(t.Context()), s.Listener)
	t.Cleanup(func() {
		require.NoError(t, g.Close(context.WithoutCancel(t.Context())))
		require.NoError(t, l.Close())
	})
	return &endpoint{g, t, "http://" + s.Listener.Addr().String()}
}

func (e *endpoint) post(path, body string, header ...string) (int, string) {
	e.t.Helper()
	resp := e.do("POST", path, body, header...)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(e.t, err)
	return resp.StatusCode, string(b)
}

func (e *endpoint) do(method, path, body string, header ...string) *http.Response {
	e.t.Helper()
	r, err := http.NewRequestWithContext(e.t.Context(), method, e.url+path, strings.NewReader(body))
	require.NoError(e.t, err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	require.NoError(e.t, err)
	return resp
}

func (e *endpoint) total() ledger.Counts {
	return e.Ledger.Sum(func(ledger.Key) bool { return true })
}

func all(url string) wire.Models {
	m := wire.Models{}
	for _, k := range []string{"anthropic", "openai", "gemini", "openai-compatible"} {
		m.Models = append(m.Models, wire.Model{Name: k, Kind: k, URL: url, Key: realKey})
	}
	return m
}

// working is what every request counts for: a task that runs.
func working(task string) func(netip.AddrPort) Work {
	return func(netip.AddrPort) Work { return Work{Task: task} }
}
