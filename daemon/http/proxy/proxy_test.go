package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
)

// crew are agents whose ports are real servers of this process.
type crew struct {
	mu     sync.Mutex
	ports  map[string]map[int]string // agent, port: where it really is
	order  []int
	dialed []string
}

func (c *crew) Names() []string {
	var out []string
	for n := range c.ports {
		out = append(out, n)
	}
	return out
}

func (c *crew) Web(_ context.Context, agent string) ([]int, error) {
	if c.ports[agent] == nil {
		return nil, api.Errorf(api.CodeAgentNotFound, "there is no agent %q", agent)
	}
	var out []int
	for p := range c.ports[agent] {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b int) int { return slices.Index(c.order, a) - slices.Index(c.order, b) })
	return out, nil
}

func (c *crew) Dial(ctx context.Context, agent string, port int) (net.Conn, error) {
	c.mu.Lock()
	c.dialed = append(c.dialed, fmt.Sprintf("%s:%d", agent, port))
	c.mu.Unlock()
	at, ok := c.ports[agent][port]
	if !ok {
		return nil, fmt.Errorf("connection refused")
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", at)
}

// open starts a proxy with an agent alice whose port 3000 is h; do sends a
// request with a Host.
func open(t *testing.T, h http.Handler) (c *crew, do func(method, host, path string, header ...string) (*http.Response, string)) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c = &crew{ports: map[string]map[int]string{"alice": {3000: s.Listener.Addr().String()}, "bob": {}}}
	p := &Proxy{Addr: netip.MustParseAddrPort("127.0.0.1:0"), Agents: c, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	require.NoError(t, p.Open(t.Context()))
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return c, func(method, host, path string, header ...string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+p.Listening().String()+path, nil)
		require.NoError(t, err)
		r.Host = host
		for i := 0; i+1 < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		resp, err := tr.RoundTrip(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp, string(b)
	}
}

func echoHost(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s %s %s %s", r.Host, r.URL, r.Header.Get("X-Forwarded-Host"), r.Header.Get("X-Forwarded-For"))
}

func TestRequestsGoWhereTheirHostSays(t *testing.T) {
	c, do := open(t, http.HandlerFunc(echoHost))
	for _, host := range []string{"alice.polis.localhost:3000", "3000.alice.polis.localhost", "ALICE.polis.localhost.", "3000.Alice.Polis.Localhost:80"} {
		resp, body := do("GET", host, "/a?b=c", "X-Forwarded-For", "6.6.6.6", "X-Forwarded-Host", "evil")
		require.Equal(t, 200, resp.StatusCode, host)
		require.Equal(t, host+" /a?b=c "+host+" 127.0.0.1", body, "the Host as it was, and nothing forged")
	}
	for host, status := range map[string]int{
		"carol.polis.localhost": 404, "bob.polis.localhost": 404, "1.2.alice.polis.localhost": 404, "03000.alice.polis.localhost": 404,
		"0.alice.polis.localhost": 404, "65536.alice.polis.localhost": 404, "x.alice.polis.localhost": 404, "..polis.localhost": 404,
		"4000.alice.polis.localhost": 502, "polis.localhost": 200, "localhost:3000": 200, "127.0.0.1": 200, "[::1]:3000": 200,
		"evil.example": 421, "polis.localhost.evil.example": 421, "xpolis.localhost": 421, "192.0.2.1": 421, "": 200,
	} {
		resp, body := do("GET", host, "/", "Accept", "application/json")
		if host == "" { // the client then sends the address
			status = 200
		}
		require.Equal(t, status, resp.StatusCode, "%s: %s", host, body)
		var got page
		require.NoError(t, json.Unmarshal([]byte(body), &got), body)
		require.Equal(t, status != 421, len(got.Agents) > 0, "a request for another name gets no list: %s", host)
	}
	resp, body := do("GET", "unknown.polis.localhost", "/")
	require.Equal(t, 404, resp.StatusCode)
	require.Contains(t, resp.Header.Get("Content-Type"), "text/html")
	require.Contains(t, body, `<a href="http://3000.alice.polis.localhost:`)
	resp, _ = do("GET", "localhost", "/x")
	require.Equal(t, 404, resp.StatusCode)
	for _, d := range c.dialed {
		require.Contains(t, []string{"alice:3000", "alice:4000"}, d)
	}
}

// What an agent answers is passed on and leads nowhere.
func TestAnAnswerLeadsNowhere(t *testing.T) {
	c, do := open(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://bob.polis.localhost/")
		w.Header().Set("X-Accel-Redirect", "/etc/passwd")
		w.Header().Set("Alt-Svc", `h2="bob:443"`)
		w.WriteHeader(http.StatusFound)
	}))
	for range 3 {
		resp, _ := do("GET", "3000.alice.polis.localhost", "/")
		require.Equal(t, 302, resp.StatusCode)
		require.Equal(t, "http://bob.polis.localhost/", resp.Header.Get("Location"))
	}
	for _, d := range c.dialed {
		require.Equal(t, "alice:3000", d)
	}
}

func TestTheFirstWebServerIsFound(t *testing.T) {
	c, do := open(t, http.HandlerFunc(echoHost))
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, says nothing
	require.NoError(t, err)
	defer silent.Close()
	database, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer database.Close()
	go func() {
		for {
			c, err := database.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, "-ERR what?\r\n")
			c.Close()
		}
	}()
	c.ports["alice"][5432], c.ports["alice"][6379] = silent.Addr().String(), database.Addr().String()
	c.order = []int{6379, 5432, 3000}
	for range 2 {
		resp, body := do("GET", "alice.polis.localhost", "/")
		require.Equal(t, 200, resp.StatusCode, body)
	}
	require.Equal(t, []string{"alice:6379", "alice:5432", "alice:3000", "alice:3000"}, c.dialed, "looked for once")
}

func TestWebSocketsAndStreamsPass(t *testing.T) {
	more := make(chan struct{})
	c, _ := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			fmt.Fprint(w, "first\n")
			_ = http.NewResponseController(w).Flush()
			<-more
			fmt.Fprint(w, "second\n")
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
		line, _ := rw.ReadString('\n')
		fmt.Fprint(conn, "you said "+line)
	}))
	p := &Proxy{Addr: netip.MustParseAddrPort("127.0.0.1:0"), Agents: c, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	require.NoError(t, p.Open(t.Context()))
	dial := func(head string) (net.Conn, *bufio.Reader) {
		conn, err := net.Dial("tcp", p.Listening().String())
		require.NoError(t, err)
		require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
		t.Cleanup(func() { conn.Close() })
		_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: alice.polis.localhost\r\n"+head+"\r\n")
		require.NoError(t, err)
		return conn, bufio.NewReader(conn)
	}
	conn, r := dial("Upgrade: websocket\r\nConnection: Upgrade\r\n")
	resp, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	require.Equal(t, 101, resp.StatusCode)
	_, err = io.WriteString(conn, "hello\n")
	require.NoError(t, err)
	line, err := r.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "you said hello\n", line)

	_, r = dial("")
	resp, err = http.ReadResponse(r, nil)
	require.NoError(t, err)
	body := bufio.NewReader(resp.Body)
	line, err = body.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "first\n", line, "while the rest is still to come")
	close(more)
	line, _ = body.ReadString('\n')
	require.Equal(t, "second\n", line)

	// Closing cuts a WebSocket that is open, and waits for nothing.
	_, r = dial("Upgrade: websocket\r\nConnection: Upgrade\r\n")
	_, err = http.ReadResponse(r, nil)
	require.NoError(t, err)
	require.NoError(t, p.Close())
	_, err = r.ReadByte()
	require.Error(t, err)
}

func TestUnencryptedHTTP2Passes(t *testing.T) {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Grpc-Status")
		fmt.Fprintf(w, "%s %s", r.Proto, r.Host)
		w.Header().Set("Grpc-Status", "0")
	}))
	s.Config.Protocols = protocols
	s.Start()
	defer s.Close()
	c, _ := open(t, http.NotFoundHandler())
	c.ports["alice"][3000] = s.Listener.Addr().String()
	p := &Proxy{Addr: netip.MustParseAddrPort("127.0.0.1:0"), Agents: c, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	require.NoError(t, p.Open(t.Context()))
	defer func() { require.NoError(t, p.Close()) }()
	only := new(http.Protocols)
	only.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: only}
	defer tr.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+p.Listening().String()+"/", strings.NewReader("x"))
	require.NoError(t, err)
	r.Host = "3000.alice.polis.localhost"
	resp, err := tr.RoundTrip(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "HTTP/2.0 3000.alice.polis.localhost", string(b))
	require.Equal(t, "0", resp.Trailer.Get("Grpc-Status"))
}

func TestOneAgentsRequestsAreBounded(t *testing.T) {
	p := &Proxy{Log: slog.Default(), Agents: &crew{}}
	p.prepare()
	for range maxPerAgent {
		require.True(t, p.enter("alice"))
	}
	require.True(t, p.enter("bob"), "another's are its own")
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "http://alice.polis.localhost/", nil)
	p.ServeHTTP(w, r)
	require.Equal(t, 503, w.Code)
	require.Equal(t, "1", w.Header().Get("Retry-After"))
	for range maxPerAgent {
		p.leave("alice")
	}
	p.leave("bob")
	require.Empty(t, p.busy)
}

func TestConnectionsAreBounded(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := limit(inner, 1)
	dial := func() {
		c, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
	}
	dial()
	dial()
	c, err := l.Accept()
	require.NoError(t, err)
	next := make(chan error, 1)
	go func() { _, err := l.Accept(); next <- err }()
	select {
	case <-next:
		t.Fatal("a second one was let in")
	case <-time.After(50 * time.Millisecond):
	}
	require.NoError(t, c.Close())
	require.Error(t, c.Close(), "twice gives back one place")
	require.NoError(t, <-next)
	go func() { _, err := l.Accept(); next <- err }()
	require.NoError(t, l.Close())
	require.ErrorIs(t, <-next, net.ErrClosed, "who waits for a place does not hold up the end")
}

func TestHostsLeadToAgentsAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		agent := rapid.StringMatching(`[a-z][a-z0-9-]{1,30}`).Draw(t, "agent")
		port := rapid.IntRange(1, 65535).Draw(t, "port")
		if api.CheckName(agent) != nil {
			return
		}
		got, k := parseHost(strings.TrimSuffix(strings.TrimPrefix(URL(agent, port, rapid.IntRange(1, 65535).Draw(t, "at")), "http://"), "/"))
		require.Equal(t, named, k)
		require.Equal(t, target{agent, port}, got)
		again, ok := parseAuthority(got.authority())
		require.True(t, ok)
		require.Equal(t, got, again)
	})
}

func FuzzParseHost(f *testing.F) {
	for _, s := range []string{"alice.polis.localhost", "3000.alice.polis.localhost:3000", "[::1]:80", "a..polis.localhost", "\x00", "127.0.0.1.polis.localhost", ":80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, host string) {
		got, k := parseHost(host)
		if k != named {
			require.Equal(t, target{}, got)
			return
		}
		require.NoError(t, api.CheckName(got.agent))
		require.True(t, got.port >= 0 && got.port <= 65535)
		if got.port > 0 {
			again, ok := parseAuthority(got.authority())
			require.True(t, ok)
			require.Equal(t, got, again)
		}
	})
}

func TestPageEscapesEveryValue(t *testing.T) {
	const hostile = `<script>"'&`
	text := string(page{Message: hostile, Agents: []known{{Agent: hostile, URL: hostile, Ports: []string{hostile}}}}.html())
	require.NotContains(t, text, "<script>")
	require.Equal(t, 5, strings.Count(text, "&lt;script&gt;&#34;&#39;&amp;"))
}
