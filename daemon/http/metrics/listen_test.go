package metrics

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func serve(t *testing.T, addr string) *Server {
	t.Helper()
	s := &Server{Addr: netip.MustParseAddrPort(addr), Metrics: New(fixed(full())), Log: slog.New(slog.DiscardHandler)}
	require.NoError(t, s.Open(t.Context()))
	t.Cleanup(func() { _ = s.Close() }) //nolint:errcheck // closed by the test
	return s
}

func TestOnlyALoopbackAddressIsServed(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", "[::]:0", "192.0.2.1:0"} {
		s := &Server{Addr: netip.MustParseAddrPort(addr), Metrics: New(fixed(State{})), Log: slog.New(slog.DiscardHandler)}
		require.ErrorContains(t, s.Open(t.Context()), "not a loopback address", addr)
	}
}

func TestThePortServesTheMetricsAndNothingElse(t *testing.T) {
	s := serve(t, "127.0.0.1:0")
	at := s.Listening().String()
	for _, tc := range []struct {
		name, method, host, path string
		status                   int
	}{
		{"the metrics", "GET", at, "/metrics", 200},
		{"the head only", "HEAD", at, "/metrics", 200},
		{"with a query", "GET", at, "/metrics?name=x", 200},
		{"by localhost", "GET", "localhost:1", "/metrics", 200},
		{"by IPv6", "GET", "[::1]:1", "/metrics", 200},
		{"by a name that leads here", "GET", "rebound.example.com", "/metrics", 421},
		{"by another address", "GET", "192.0.2.1", "/metrics", 421},
		{"the root", "GET", at, "/", 404},
		{"the API", "GET", at, "/v1/status", 404},
		{"a change", "POST", at, "/metrics", 405},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), tc.method, "http://"+at+tc.path, nil)
			require.NoError(t, err)
			req.Host = tc.host
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, tc.status, resp.StatusCode)
			if tc.status != 200 {
				require.NotContains(t, string(body), "polis_agent")
				return
			}
			require.Equal(t, ContentType, resp.Header.Get("Content-Type"))
			require.Equal(t, tc.method == "GET", strings.Contains(string(body), "polis_agent_up"))
		})
	}
	http.DefaultClient.CloseIdleConnections()
	require.NoError(t, s.Close())
	_, err := net.Dial("tcp", at)
	require.Error(t, err)
}

func TestConnectionsAreBounded(t *testing.T) {
	s := serve(t, "127.0.0.1:0")
	var held []net.Conn
	for range maxConns {
		c, err := net.Dial("tcp", s.Listening().String())
		require.NoError(t, err)
		held = append(held, c)
	}
	c, err := net.Dial("tcp", s.Listening().String()) // in the kernel's backlog
	require.NoError(t, err)
	defer c.Close()
	_, err = fmt.Fprint(c, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	for _, h := range held {
		require.NoError(t, h.Close())
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	require.NoError(t, err, "it is served when there is room")
	require.Equal(t, "HTTP/1.1 200 OK\r\n", line)
}

func FuzzRequests(f *testing.F) {
	s := &Server{Metrics: New(func(context.Context) State { return State{} }), Log: slog.New(slog.DiscardHandler)}
	f.Add("GET", "127.0.0.1", "/metrics")
	f.Add("GET", "[::1", "//metrics")
	f.Fuzz(func(t *testing.T, method, host, path string) {
		u, err := url.Parse(path)
		if err != nil {
			return
		}
		req := &http.Request{Method: method, Host: host, Header: http.Header{}, URL: u}
		w := &answer{header: http.Header{}}
		s.ServeHTTP(w, req.WithContext(t.Context()))
		if strings.Contains(w.body.String(), "polis_") {
			require.True(t, local(host))
			require.Equal(t, "/metrics", req.URL.Path)
		}
	})
}

type answer struct {
	header http.Header
	body   strings.Builder
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }
func (*answer) WriteHeader(int)               {}
