package gateway

import (
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api/setting"
	"polis/daemon/gateway/ledger"
	"polis/daemon/gateway/usage"
)

// percent writes every byte as an escape.
func percent(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}

// encodings are the forms in which services and their proxies repeat a header in an error.
var encodings = map[string]func(string) string{
	"plain":      func(s string) string { return s },
	"base64":     func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"base64 url": func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) },
	"hex":        func(s string) string { return hex.EncodeToString([]byte(s)) },
	"HEX":        func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
	"query":      url.QueryEscape,
	"path":       url.PathEscape,
	"percent":    percent,
	"lower":      func(s string) string { return strings.ToLower(percent(s)) },
	"JSON":       func(s string) string { return strings.ReplaceAll(s, "/", `\/`) },
	"Go's JSON":  func(s string) string { b, _ := json.Marshal(s); return string(b) },
	"JavaScript": func(s string) string {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		_ = e.Encode(s)
		return b.String()
	},
	"PHP": func(s string) string { return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "/", `\/`).Replace(s) },
	".NET": func(s string) string {
		return strings.NewReplacer(`\`, `\\`, `"`, `\u0022`, "<", `\u003C`, ">", `\u003E`, "&", `\u0026`, "'", `\u0027`, "+", `\u002B`, "`", `\u0060`).Replace(s)
	},
	"HTML":        html.EscapeString,
	"a template":  func(s string) string { return strings.ReplaceAll(html.EscapeString(s), "+", "&#43;") },
	"lower query": func(s string) string { return escape.ReplaceAllStringFunc(url.QueryEscape(s), strings.ToLower) },
}

// decodings undo them.
var decodings = []func(string) string{
	func(s string) string { return s },
	func(s string) string { b, _ := base64.StdEncoding.DecodeString(s); return string(b) },
	func(s string) string { b, _ := base64.RawURLEncoding.DecodeString(s); return string(b) },
	func(s string) string { b, _ := hex.DecodeString(s); return string(b) },
	func(s string) string { out, _ := url.QueryUnescape(s); return out },
	func(s string) string { out, _ := url.PathUnescape(s); return out },
	func(s string) string { return strings.ReplaceAll(s, `\/`, "/") },
	func(s string) string { var out string; _ = json.Unmarshal([]byte(s), &out); return out },
	func(s string) string { var out string; _ = json.Unmarshal([]byte(`"`+s+`"`), &out); return out },
	html.UnescapeString,
}

// Feature: multi-agent-workspaces, Property: the key is in no answer
func TestTheKeyIsRemovedInEveryUsualEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringMatching(rapid.SampledFrom([]string{`[A-Za-z0-9+/=_.~-]{12,60}`, `[!-~]{12,60}`}).Draw(t, "alphabet")).Draw(t, "key")
		before := rapid.StringMatching(`[a-z :]{0,9}`).Draw(t, "before")
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(encodings))).Draw(t, "encoding")
		text := encodings[name](before + key + rapid.StringMatching(`[a-z :]{0,9}`).Draw(t, "after"))
		var r io.Reader = strings.NewReader(text)
		if rapid.Bool().Draw(t, "byte by byte") {
			r = iotest.OneByteReader(r)
		}
		b, err := io.ReadAll(newRedactor(r, newSearch(forms(key))))
		require.NoError(t, err)
		require.Len(t, b, len(text))
		for _, decode := range decodings {
			require.NotContains(t, decode(string(b)), key, name)
		}
	})
}

func TestHeadersWithAnEncodedKeyAreDropped(t *testing.T) {
	s := newStandIn(t)
	s.handle = func(w http.ResponseWriter, r *http.Request) {
		for name, encode := range encodings {
			w.Header().Set("X-Echo-"+strings.ReplaceAll(name, " ", "-"), encode("Bearer "+realKey))
		}
		fmt.Fprint(w, `{"usage":{"input_tokens":1,"output_tokens":1}}`)
	}
	e := newEndpoint(t, all(s.URL))
	resp := e.do("POST", "/anthropic/v1/messages", `{"model":"m"}`)
	require.NoError(t, resp.Body.Close())
	for name := range resp.Header {
		require.NotContains(t, name, "X-Echo")
	}
}

func TestACompressedAnswerIsReadAndCounted(t *testing.T) {
	s := newStandIn(t)
	e := newEndpoint(t, all(s.URL))
	encoding := ""
	s.handle = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", encoding)
		w.Header().Set("Content-Type", "text/event-stream")
		z := gzip.NewWriter(w)
		for _, part := range []string{
			`data: {"type":"message_start","message":{"usage":{"input_tokens":7,"output_tokens":1}}}` + "\n\n", ": " + realKey + "\n\n",
			`data: {"type":"message_delta","usage":{"output_tokens":30}}` + "\n\n",
		} {
			fmt.Fprint(z, part)
			_ = z.Flush()
			w.(http.Flusher).Flush()
		}
		_ = z.Close()
	}
	encoding = "gzip"
	resp := e.do("POST", "/anthropic/v1/messages", `{"model":"m","stream":true}`)
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Empty(t, resp.Header.Get("Content-Encoding"))
	require.Contains(t, string(b), "message_start")
	require.NotContains(t, string(b), realKey)
	require.Equal(t, usage.Tokens{Input: 7, Output: 30}, e.total().Tokens)
	require.Zero(t, e.total().Estimated)

	encoding = "br" // what cannot be read is not forwarded: it could have the key
	code, text := e.post("/anthropic/v1/messages", `{"model":"m"}`)
	require.Equal(t, 502, code)
	require.Contains(t, text, "compressed")
	require.Equal(t, int64(1), e.total().Errors)
}

func TestAnAnswerIsOfTheTaskThatRequestedIt(t *testing.T) {
	s := newStandIn(t)
	s.next = make(chan struct{})
	e := newEndpoint(t, all(s.URL))
	now := make(chan string, 1)
	now <- "a.1"
	e.Work = func(netip.AddrPort) Work { task := <-now; now <- task; return Work{Task: task} }
	resp := e.do("POST", "/anthropic/v1/messages", `{"model":"m","stream":true,"max_tokens":1,"in":5}`)
	<-now
	now <- "a.2" // the agent leaves its answer open, and begins another task
	s.next <- struct{}{}
	_, err := io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, map[string]int64{"a.1": 6}, e.byTask())
}

func (e *endpoint) byTask() map[string]int64 {
	out := map[string]int64{}
	for _, task := range []string{"", "a.1", "a.2"} {
		if n := e.Ledger.Sum(func(k ledger.Key) bool { return k.Task == task }).Total(); n > 0 {
			out[task] = n
		}
	}
	return out
}

func TestRequestsWithoutTokensAreLimitedAndPausedAsWell(t *testing.T) {
	s := newStandIn(t)
	m := all(s.URL)
	m.Budget = setting.ModelBudget{RequestsPerMinute: 2}
	e := newEndpoint(t, m)
	for i, want := range []int{200, 200, 429, 429} {
		code, text := e.post("/anthropic/v1/messages/count_tokens", `{"model":"m"}`)
		require.Equal(t, want, code, "%d %s", i, text)
	}
	resp := e.do("GET", "/openai/v1/models", "")
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 429, resp.StatusCode, "the service has one limit for all")
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Equal(t, 2, s.requests)
}

func TestAnAnswerThatStopsIsCut(t *testing.T) {
	s := newStandIn(t)
	gone := make(chan struct{})
	s.handle = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":40,\"output_tokens\":1}}}\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done() // it says nothing more
		close(gone)
	}
	e := newEndpoint(t, all(s.URL))
	e.silence = 50 * time.Millisecond
	resp := e.do("POST", "/anthropic/v1/messages", `{"model":"m","stream":true}`)
	_, err := io.Copy(io.Discard, resp.Body)
	require.Error(t, err, "the agent sees that it is cut")
	require.NoError(t, resp.Body.Close())
	<-gone
	require.Eventually(t, func() bool { return e.total().Cut == 1 }, 30*time.Second, 5*time.Millisecond)
	require.Equal(t, int64(40), e.total().Input)
}

func TestAHostileServiceCannotExhaustTheGateway(t *testing.T) {
	s := newStandIn(t)
	e := newEndpoint(t, all(s.URL))
	for name, handle := range map[string]http.HandlerFunc{
		"endless header": func(w http.ResponseWriter, r *http.Request) {
			c, b, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			defer c.Close()
			_, err = b.WriteString("HTTP/1.1 200 OK\r\n")
			for err == nil {
				_, err = b.WriteString("X-A: " + strings.Repeat("a", 4096) + "\r\n")
			}
		},
		"endless interim answers": func(w http.ResponseWriter, r *http.Request) {
			c, b, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			defer c.Close()
			for err == nil {
				_, err = b.WriteString("HTTP/1.1 103 Early Hints\r\nLink: </" + strings.Repeat("a", 1024) + ">\r\n\r\n")
			}
		},
		"no HTTP": func(w http.ResponseWriter, r *http.Request) {
			c, b, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			_, _ = b.WriteString("SSH-2.0-x\r\n")
			_ = b.Flush()
			_ = c.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.mu.Lock()
			s.handle = handle
			s.mu.Unlock()
			code, text := e.post("/anthropic/v1/messages", `{"model":"m"}`)
			require.Equal(t, 502, code)
			require.Contains(t, text, CodeService)
		})
	}
	require.Equal(t, int64(3), e.total().Errors)
	require.Zero(t, e.total().Total())
}

// BenchmarkRedactor has one event of a stream in each read, about 20 tokens.
func BenchmarkRedactor(b *testing.B) {
	event := []byte("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"some words of a model, about twenty tokens of them in this event\"}}\n\n")
	b.SetBytes(int64(len(event)))
	p, keys := make([]byte, 32<<10), newSearch(forms(realKey))
	r := newRedactor(readerFunc(func(p []byte) (int, error) { return copy(p, event), nil }), keys)
	for b.Loop() {
		if _, err := r.Read(p); err != nil {
			b.Fatal(err)
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
