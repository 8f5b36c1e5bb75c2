package gateway

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api/setting"
	"polis/daemon/api/wire"
	"polis/daemon/gateway/budget"
	"polis/daemon/gateway/usage"
)

func TestTheKeyReplacesWhatTheAgentSends(t *testing.T) {
	for _, c := range []struct{ path, body, header, want string }{
		{"/anthropic/v1/messages?beta=true&key=x", `{"model":"m"}`, "X-Api-Key", realKey},
		{"/openai/v1/chat/completions", `{"model":"m"}`, "Authorization", "Bearer " + realKey},
		{"/openai/v1/responses", `{"model":"m"}`, "Authorization", "Bearer " + realKey},
		{"/gemini/v1beta/models/m:generateContent?key=x", `{}`, "X-Goog-Api-Key", realKey},
		{"/openai-compatible/v1/chat/completions", `{"model":"m"}`, "Authorization", "Bearer " + realKey},
	} {
		t.Run(c.path, func(t *testing.T) {
			s := newStandIn(t)
			e := newEndpoint(t, all(s.URL+"/base/v1"))
			code, body := e.post(c.path, c.body, "X-Api-Key", "virtual", "Authorization", "Bearer virtual", "X-Goog-Api-Key", "virtual",
				"Cookie", "c", "X-Forwarded-For", "203.0.113.1", "Openai-Organization", "other", "X-Goog-User-Project", "other", "Proxy-Authorization", "p", "User-Agent", "agent/1")
			require.Equal(t, 200, code, body)
			r := s.seen[0]
			require.Equal(t, c.want, r.Header.Get(c.header))
			for _, h := range []string{"X-Api-Key", "Authorization", "X-Goog-Api-Key", "Cookie", "X-Forwarded-For", "Openai-Organization", "X-Goog-User-Project", "Proxy-Authorization"} {
				if h != c.header {
					require.Empty(t, r.Header.Get(h), h)
				}
			}
			require.Equal(t, "agent/1", r.UserAgent())
			require.Equal(t, strings.TrimPrefix(s.URL, "http://"), r.Host)
			require.True(t, strings.HasPrefix(r.URL.Path, "/base/v1"), r.URL.Path)
			require.NotContains(t, r.URL.RawQuery, "key=")
		})
	}
}

// raw sends bytes to the endpoint and returns the status line.
func (e *endpoint) raw(request string) string {
	e.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(e.url, "http://"))
	require.NoError(e.t, err)
	defer c.Close()
	require.NoError(e.t, c.SetDeadline(time.Now().Add(20*time.Second)))
	_, err = io.WriteString(c, request)
	require.NoError(e.t, err)
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(line)
}

func TestHostileRequestsAreRefused(t *testing.T) {
	s := newStandIn(t)
	e := newEndpoint(t, all(s.URL))
	const ok = `{"model":"m"}`
	post := func(path, headers, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n%s\r\n%s", path, len(body), headers, body)
	}
	require.Contains(t, e.raw(post("/anthropic/v1/messages", "", ok)), " 200 ", "the request itself is good")
	for name, request := range map[string]string{
		"CONNECT":                  "CONNECT internal.example.com:443 HTTP/1.1\r\nHost: internal.example.com:443\r\n\r\n",
		"absolute URI":             strings.Replace(post("/anthropic/v1/messages", "", ok), "/anthropic", "http://internal.example.com/anthropic", 1),
		"absolute URI of itself":   strings.Replace(post("/anthropic/v1/messages", "", ok), "/anthropic", "http://127.0.0.1/anthropic", 1),
		"another Host":             strings.Replace(post("/anthropic/v1/messages", "", ok), "Host: 127.0.0.1", "Host: evil.example.com", 1),
		"two Hosts":                post("/anthropic/v1/messages", "Host: evil.example.com\r\n", ok),
		"no Host":                  strings.Replace(post("/anthropic/v1/messages", "", ok), "Host: 127.0.0.1\r\n", "", 1),
		"length and chunks":        post("/anthropic/v1/messages", "Transfer-Encoding: chunked\r\n", "0\r\n\r\nGET /x HTTP/1.1\r\n\r\n"),
		"two lengths":              post("/anthropic/v1/messages", "Content-Length: 5\r\n", ok),
		"odd transfer encoding":    post("/anthropic/v1/messages", "Transfer-Encoding: xchunked\r\n", ok),
		"folded header":            post("/anthropic/v1/messages", "X-A: b\r\n c\r\n", ok) + "",
		"newline in a header":      post("/anthropic/v1/messages", "X-A: b\x00c\r\n", ok),
		"upgrade":                  post("/anthropic/v1/messages", "Connection: Upgrade\r\nUpgrade: websocket\r\n", ok),
		"compressed body":          post("/anthropic/v1/messages", "Content-Encoding: gzip\r\n", ok),
		"page of the web":          post("/anthropic/v1/messages", "Sec-Fetch-Site: cross-site\r\n", ok),
		"another service":          post("/other/v1/messages", "", ok),
		"another path":             post("/anthropic/v1/files", "", ok),
		"path of another kind":     post("/anthropic/v1/chat/completions", "", ok),
		"dots":                     post("/anthropic/v1/../admin", "", ok),
		"encoded dots":             post("/anthropic/v1/%2e%2e/admin", "", ok),
		"encoded slash":            post("/gemini/v1beta/models/m%2f..%2fx:generateContent", "", ok),
		"double encoded":           post("/gemini/v1beta/models/m%252f:generateContent", "", ok),
		"slash in a model":         post("/gemini/v1beta/models/a/b:generateContent", "", ok),
		"double slash":             post("//anthropic/v1/messages", "", ok),
		"backslash":                post(`/anthropic/v1\messages`, "", ok),
		"another method":           strings.Replace(post("/anthropic/v1/messages", "", ok), "POST", "PUT", 1),
		"model twice":              post("/anthropic/v1/messages", "", `{"model":"m","model":"n"}`),
		"model in capitals":        post("/anthropic/v1/messages", "", `{"model":"m","Model":"n"}`),
		"model that is no name":    post("/anthropic/v1/messages", "", `{"model":"m\nx"}`),
		"model that is no text":    post("/anthropic/v1/messages", "", `{"model":["m"]}`),
		"no model":                 post("/anthropic/v1/messages", "", `{}`),
		"no JSON":                  post("/anthropic/v1/messages", "", `model=m`),
		"two documents":            post("/anthropic/v1/messages", "", ok+ok),
		"answer that is not read":  post("/openai/v1/responses", "", `{"model":"m","background":true}`),
		"usage twice":              post("/openai/v1/chat/completions", "", `{"model":"m","stream":true,"stream_options":{"Include_Usage":false}}`),
		"body of a GET":            strings.Replace(post("/anthropic/v1/models", "", ok), "POST", "GET", 1),
		"header that is too large": post("/anthropic/v1/messages", "X-A: "+strings.Repeat("a", 100<<10)+"\r\n", ok),
	} {
		t.Run(name, func(t *testing.T) {
			s.mu.Lock()
			before := s.requests
			s.mu.Unlock()
			line := e.raw(request)
			if name == "folded header" { // net/http reads it as one line; it is not forwarded
				return
			}
			require.Regexp(t, `^HTTP/1.1 [45]\d\d `, line)
			if name == "upgrade" {
				require.Contains(t, line, " 426 ", "after another answer Codex does not continue without")
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			require.Equal(t, before, s.requests, "the service got nothing")
		})
	}
}

func TestAServiceCannotSendTheAgentElsewhereOrShowTheKey(t *testing.T) {
	s := newStandIn(t)
	e := newEndpoint(t, all(s.URL))
	e.renew = 0
	set := func(h http.HandlerFunc) { s.mu.Lock(); s.handle = h; s.mu.Unlock() }
	for _, status := range []int{301, 302, 303, 307, 308, 304} {
		set(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", s.URL+"/elsewhere?"+realKey)
			w.WriteHeader(status)
		})
		resp := e.do("POST", "/anthropic/v1/messages", `{"model":"m"}`)
		require.Equal(t, 502, resp.StatusCode)
		require.Empty(t, resp.Header.Get("Location"))
		require.NoError(t, resp.Body.Close())
	}
	set(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Echo", r.Header.Get("X-Api-Key"))
		w.Header().Set("X-Echo-Capitals", strings.ToUpper(r.Header.Get("X-Api-Key")))
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("Trailer", "X-Late")
		w.Header().Set("Link", "</"+realKey+">; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("X-Fine", "fine")
		w.WriteHeader(401)
		fmt.Fprintf(w, `{"error":"%s and %s"}`, realKey[:5], realKey)
		w.(http.Flusher).Flush()
		fmt.Fprint(w, realKey[:10])
		w.(http.Flusher).Flush()
		fmt.Fprint(w, realKey[10:]+realKey)
		w.Header().Set("X-Late", realKey)
	})
	resp := e.do("POST", "/anthropic/v1/messages", `{"model":"m"}`)
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 401, resp.StatusCode)
	require.Equal(t, "fine", resp.Header.Get("X-Fine"))
	shown := fmt.Sprint(resp.Header, resp.Trailer) + string(b)
	require.NotContains(t, strings.ToLower(shown), realKey)
	require.NotContains(t, shown, "Set-Cookie")
	require.Contains(t, string(b), realKey[:5]+" and ")
	require.Equal(t, int64(7), e.total().Errors)
}

func TestAStreamIsNotHeldBack(t *testing.T) {
	s := newStandIn(t)
	s.next = make(chan struct{})
	e := newEndpoint(t, all(s.URL))
	resp := e.do("POST", "/anthropic/v1/messages", `{"model":"m","stream":true,"max_tokens":3,"in":5}`)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	read := func(what string) {
		for lines.Scan() {
			if strings.Contains(lines.Text(), what) {
				return
			}
		}
		t.Fatalf("the stream ended before %s: %v", what, lines.Err())
	}
	read("message_start") // before the service writes the next event
	for range 3 {
		s.next <- struct{}{}
		read("content_block_delta")
	}
	read("message_stop")
	for lines.Scan() {
		continue
	}
	c := e.total()
	require.Equal(t, usage.Tokens{Input: 5, Output: 3}, c.Tokens)
	require.Zero(t, c.Estimated+c.Cut+c.Errors)
	require.Positive(t, c.FirstMicros)
}

func TestACancelledRequestEndsAtTheServiceAndIsCounted(t *testing.T) {
	s := newStandIn(t)
	gone := make(chan struct{})
	s.handle = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":40,\"output_tokens\":1}}}\n\n")
		for range 4 {
			fmt.Fprint(w, "data: {\"type\":\"content_block_delta\"}\n\n")
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(gone)
	}
	e := newEndpoint(t, all(s.URL))
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", e.url+"/anthropic/v1/messages", strings.NewReader(`{"model":"m","stream":true}`))
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	lines := bufio.NewScanner(resp.Body)
	for n := 0; n < 5 && lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data:") {
			n++
		}
	}
	cancel()
	require.NoError(t, resp.Body.Close())
	<-gone
	require.Eventually(t, func() bool { return e.total().Requests == 1 }, 30*time.Second, 5*time.Millisecond)
	c := e.total()
	require.Equal(t, int64(1), c.Cut)
	require.Equal(t, usage.Tokens{Input: 40, Output: 4}, c.Tokens, "what was reported, and one token for each event")
}

// Feature: multi-agent-workspaces, Property: the counts of a ledger are those of the service
func TestTheCountsAreThoseOfTheService(t *testing.T) {
	s := newStandIn(t)
	e := newEndpoint(t, all(s.URL))
	rapid.Check(t, func(t *rapid.T) {
		stream := rapid.Bool().Draw(t, "stream")
		n, in, cache := rapid.IntRange(0, 20).Draw(t, "n"), rapid.IntRange(1, 5000).Draw(t, "in"), rapid.IntRange(0, 5000).Draw(t, "cache")
		cut := -1
		path := rapid.SampledFrom([]string{"/anthropic/v1/messages", "/openai/v1/chat/completions", "/openai/v1/responses", "/gemini/v1/models/m:generateContent"}).Draw(t, "path")
		switch path {
		case "/anthropic/v1/messages":
			if stream && rapid.Bool().Draw(t, "is cut") {
				cut = rapid.IntRange(0, 20).Draw(t, "cut")
			}
		case "/openai/v1/responses", "/gemini/v1/models/m:generateContent":
			stream = false
		}
		s.mu.Lock()
		s.cutAt = cut
		s.mu.Unlock()
		resp := e.do("POST", path, fmt.Sprintf(`{"model":"m","stream":%t,"max_tokens":%d,"in":%d,"cache":%d}`, stream, n, in, cache))
		_, err := io.Copy(io.Discard, resp.Body)
		require.Equal(t, cut >= 0 && cut < n, err != nil, "the agent sees that an answer is cut: %v", err)
		require.NoError(t, resp.Body.Close())
		s.mu.Lock()
		defer s.mu.Unlock()
		require.Eventually(t, func() bool { return e.total().Requests == int64(s.requests) }, 30*time.Second, time.Millisecond)
		require.Equal(t, s.tokens, e.total().Tokens)
	})
}

func TestBudgetsEndRequests(t *testing.T) {
	s := newStandIn(t)
	m := all(s.URL)
	m.Budget = setting.ModelBudget{TaskTokens: 100}
	for i := range m.Models {
		m.Models[i].Currency, m.Models[i].Prices = "EUR", []setting.ModelPrice{{Model: "*", Input: 2, Output: 10}}
	}
	e := newEndpoint(t, m)
	reached := make(chan budget.State, 9)
	e.Reached = func(st budget.State) { reached <- st }
	e.Work = working("a.1")
	use := func(in int) (int, string) {
		return e.post("/anthropic/v1/messages", fmt.Sprintf(`{"model":"m","in":%d,"max_tokens":1}`, in))
	}
	code, _ := use(49)
	require.Equal(t, 200, code)
	require.Empty(t, reached)
	code, _ = use(39)
	require.Equal(t, 200, code)
	require.Equal(t, "task_tokens", (<-reached).Bound)
	code, _ = use(20)
	require.Equal(t, 200, code, "90 of 100: the answer may exceed the budget")
	require.True(t, (<-reached).Spent())
	resp := e.do("POST", "/anthropic/v1/messages", `{"model":"m"}`)
	var v struct {
		Error struct{ Type, Message string }
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&v))
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 429, resp.StatusCode)
	require.Equal(t, "false", resp.Header.Get("X-Should-Retry"))
	require.Equal(t, "rate_limit_error", v.Error.Type)
	require.Contains(t, v.Error.Message, "111 of 100 tokens of the task")
	for path, body := range map[string]string{"/openai/v1/responses": `{"model":"m"}`, "/gemini/v1/models/m:generateContent": `{}`} {
		code, text := e.post(path, body)
		require.Equal(t, 429, code)
		require.Contains(t, text, CodeBudget)
	}
	require.Empty(t, reached, "each level is reported once")
	code, _ = e.post("/anthropic/v1/messages/count_tokens", `{"model":"m"}`)
	require.Equal(t, 200, code, "it costs nothing")
	e.Work = working("a.2")
	code, _ = use(1)
	require.Equal(t, 200, code, "another task has its own")
	require.Equal(t, int64(109*2+4*10), e.total().Micros)
	require.Equal(t, int64(3), e.total().Refused)

	m.Budget = setting.ModelBudget{RequestsPerMinute: 1}
	require.NoError(t, e.Set(m))
	code, _ = use(1)
	require.Equal(t, 200, code)
	resp = e.do("POST", "/anthropic/v1/messages", `{"model":"m"}`)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 429, resp.StatusCode)
	require.NotEmpty(t, resp.Header.Get("Retry-After"))

	m.Budget, m.Models[0].Allow = setting.ModelBudget{}, []string{"small-*"}
	require.NoError(t, e.Set(m))
	code, text := use(1)
	require.Equal(t, 403, code)
	require.Contains(t, text, CodeModel)
	code, _ = e.post("/anthropic/v1/messages", `{"model":"small-1"}`)
	require.Equal(t, 200, code)
}

func TestAPauseOfTheServiceIsHonouredOnce(t *testing.T) {
	s := newStandIn(t)
	s.handle = func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Retry-After", "1"); w.WriteHeader(529) }
	e := newEndpoint(t, all(s.URL))
	told := make(chan time.Time, 1)
	e.Limited = func(name string, until time.Time) { require.Equal(t, "anthropic", name); told <- until }
	code, _ := e.post("/anthropic/v1/messages", `{"model":"m"}`)
	require.Equal(t, 529, code)
	until := <-told
	s.mu.Lock()
	s.handle = nil
	s.mu.Unlock()
	code, _ = e.post("/anthropic/v1/messages", `{"model":"m"}`)
	require.Equal(t, 200, code)
	require.False(t, time.Now().Before(until), "the next request waited")
	e.Pause("anthropic", time.Now().Add(30*time.Minute), 0)
	resp := e.do("POST", "/anthropic/v1/messages", `{"model":"m"}`)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 429, resp.StatusCode)
	require.NotEmpty(t, resp.Header.Get("Retry-After"))
	code, _ = e.post("/openai/v1/responses", `{"model":"m"}`)
	require.Equal(t, 200, code, "another service does not pause")
}

func TestTheServiceIsVerified(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"proto":%q,"usage":{"input_tokens":1,"output_tokens":1}}`, r.Proto)
	}))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	s.StartTLS()
	defer s.Close()
	e := newEndpoint(t, all(s.URL))
	code, text := e.post("/anthropic/v1/messages", `{"model":"m"}`)
	require.Equal(t, 502, code)
	require.NotContains(t, text, "x509")
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	e.services["anthropic"].transport.TLSClientConfig.RootCAs = roots
	code, text = e.post("/anthropic/v1/messages", `{"model":"m"}`)
	require.Equal(t, 200, code, text)
	require.Contains(t, text, "HTTP/2.0")
}

func TestServicesAreReplacedWhileAnswersContinue(t *testing.T) {
	s := newStandIn(t)
	s.next = make(chan struct{})
	e := newEndpoint(t, all(s.URL))
	resp := e.do("POST", "/anthropic/v1/messages", `{"model":"m","stream":true,"max_tokens":1}`)
	other := all(s.URL)
	other.Models[0].Key = "sk-other-0123456789"
	var rekeyed []string
	e.Rekeyed = func(service string) { rekeyed = append(rekeyed, service) }
	require.NoError(t, e.Set(all(s.URL)))
	require.Empty(t, rekeyed)
	require.NoError(t, e.Set(other))
	require.Equal(t, []string{"anthropic"}, rekeyed)
	s.next <- struct{}{}
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Contains(t, string(b), "message_stop")
	code, _ := e.post("/anthropic/v1/messages", `{"model":"m"}`)
	require.Equal(t, 200, code)
	require.Equal(t, "sk-other-0123456789", s.seen[1].Header.Get("X-Api-Key"))
	require.NoError(t, e.Set(wire.Models{}))
	code, _ = e.post("/anthropic/v1/messages", `{"model":"m"}`)
	require.Equal(t, 404, code)
}

func TestSettingsOfAServiceAreChecked(t *testing.T) {
	for _, m := range []wire.Model{
		{Name: "a", Kind: "other", URL: "https://models.example.com"},
		{Name: "a", Kind: "openai", URL: "ftp://models.example.com"},
		{Name: "a", Kind: "openai", URL: "http://models.example.com"},
		{Name: "a", Kind: "openai", URL: "https://user@models.example.com"},
		{Name: "a", Kind: "openai", URL: "https://models.example.com/?x"},
		{Name: "a", Kind: "openai", URL: "https://models.example.com/%2e%2e"},
		{Name: "a", Kind: "openai", URL: "https://models.example.com", Key: "short"},
		{Name: "a", Kind: "openai", URL: "https://models.example.com", Key: "with a newline\n"},
	} {
		require.Error(t, New().Set(wire.Models{Models: []wire.Model{m}}), "%+v", m)
		require.NotContains(t, fmt.Sprintf("%v %+v %#v", m, m, m), "newline")
	}
	var b bytes.Buffer
	slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "m", wire.Model{Name: "a", Key: realKey})
	require.NotContains(t, b.String(), realKey)
}

// Feature: multi-agent-workspaces, Property: the key is in no answer
func TestTheKeyIsRemovedHoweverItIsCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.SampledFrom([]string{realKey, realKey[:7], "sk-", "text ", "s"})).Draw(t, "parts")
		text := strings.Join(parts, "")
		var r io.Reader = strings.NewReader(text)
		if rapid.Bool().Draw(t, "byte by byte") {
			r = iotest.OneByteReader(r)
		}
		b, err := io.ReadAll(newRedactor(r, newSearch(forms(realKey))))
		require.NoError(t, err)
		require.Equal(t, strings.ReplaceAll(text, realKey, strings.Repeat("*", len(realKey))), string(b))
	})
}
