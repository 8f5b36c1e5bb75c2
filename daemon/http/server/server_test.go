package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/host/peer"
	"polis/daemon/store/events"
)

// nothing is a Backend whose every call is a test failure: what these tests
// send must be refused before it gets there.
type nothing struct{ Backend }

func request(t *testing.T, cred *unix.Ucred, method, path, body string) (int, *api.Error) {
	t.Helper()
	s := &Server{Backend: nothing{}, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if cred != nil {
		who, ok := s.grant(peer.Peer{UID: cred.Uid, GID: cred.Gid})
		require.True(t, ok)
		r = r.WithContext(context.WithValue(r.Context(), peerKey{}, who))
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	e := &api.Error{}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), e), "%s %s: %s", method, path, w.Body.String())
	return w.Code, e
}

func TestEveryRouteRefusesAnUnknownCaller(t *testing.T) {
	for _, rt := range Routes() {
		method, path, _ := strings.Cut(rt.Pattern, " ")
		code, e := request(t, nil, method, path, "{}")
		require.Equal(t, http.StatusForbidden, code, rt.Pattern)
		require.Equal(t, api.CodeForbidden, e.Code)
	}
}

// TestWhoMayCallWhat is the matrix of callers and routes.
func TestWhoMayCallWhat(t *testing.T) {
	const admins, readers = 700, 800
	type caller struct {
		name string
		peer.Peer
		may Access // -1: nothing
	}
	for _, c := range []caller{
		{"root", peer.Peer{}, AccessRoot},
		{"root in the group of readers", peer.Peer{GID: readers}, AccessRoot},
		{"a member", peer.Peer{UID: 1000, GID: admins}, AccessAdmin},
		{"a member by a supplementary group", peer.Peer{UID: 1000, GID: 1000, Groups: []uint32{5, admins}}, AccessAdmin},
		{"a member of both", peer.Peer{UID: 1000, GID: readers, Groups: []uint32{admins}}, AccessAdmin},
		{"a reader", peer.Peer{UID: 1000, GID: readers}, AccessRead},
		{"a reader by a supplementary group", peer.Peer{UID: 1000, GID: 1000, Groups: []uint32{readers}}, AccessRead},
		{"any other user", peer.Peer{UID: 1000, GID: 1000, Groups: []uint32{5}}, -1},
		{"a member of root's group", peer.Peer{UID: 1000}, -1},
	} {
		for _, rt := range Routes() {
			s := &Server{Log: slog.New(slog.DiscardHandler), GID: admins, ReadGID: readers}
			method, path, _ := strings.Cut(rt.Pattern, " ")
			r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
			if who, ok := s.grant(c.Peer); ok {
				r = r.WithContext(context.WithValue(r.Context(), peerKey{}, who))
			}
			err := s.authorize(rt.Access, r)
			require.Equal(t, c.may >= rt.Access, err == nil, "%s: %s (%s)", c.name, rt.Pattern, rt.Access)
			if err != nil {
				require.Equal(t, api.CodeForbidden, api.CodeOf(err))
			}
		}
	}
	// Without the groups nobody but root.
	none := &Server{GID: -1, ReadGID: -1}
	_, ok := none.grant(peer.Peer{UID: 1000, GID: readers, Groups: []uint32{admins, 0}})
	require.False(t, ok)
}

func TestRoutesAreDescribedAndUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, rt := range Routes() {
		require.NotEmpty(t, rt.About, rt.Pattern)
		require.False(t, seen[rt.Pattern], rt.Pattern)
		seen[rt.Pattern] = true
		method, _, _ := strings.Cut(rt.Pattern, " ")
		// These show what is in files of agents, or their command lines.
		shows := slices.ContainsFunc([]string{"/attach", "/content", "/who", "/blame"}, func(end string) bool { return strings.HasSuffix(rt.Pattern, end) })
		require.Equal(t, method != http.MethodGet || shows, rt.Access != AccessRead, rt.Pattern)
	}
}

func TestBadBodiesAreRefusedByEveryRouteThatReadsOne(t *testing.T) {
	root := &unix.Ucred{Uid: 0}
	for _, rt := range []string{"POST /v1/workspaces", "POST /v1/agents", "POST /v1/agents/a1/run", "POST /v1/agents/a1/merge", "POST /v1/agents/a1/pull-request", "POST /v1/agents/a1/remote", "POST /v1/agents/a1/revert", "POST /v1/agents/a1/restore", "POST /v1/agents/a1/fork", "POST /v1/agents/a1/snapshots", "POST /v1/snapshots/s1/restore", "POST /v1/tasks/a1.1/replay", "POST /v1/races", "POST /v1/races/r1/choose", "POST /v1/queue", "POST /v1/queue/a1", "POST /v1/gc", "POST /v1/maintenance", "POST /v1/locks", "DELETE /v1/locks", "POST /v1/ports"} {
		method, path, _ := strings.Cut(rt, " ")
		for name, body := range map[string]string{
			"not json":      "hello",
			"cut short":     `{"name": "x`,
			"unknown field": `{"colour": "blue"}`,
			"wrong type":    `["x"]`,
			"trailing text": `{} {}`,
		} {
			code, e := request(t, root, method, path, body)
			require.Equal(t, http.StatusBadRequest, code, "%s, %s", rt, name)
			require.Equal(t, api.CodeBadRequest, e.Code)
			require.NotEmpty(t, e.Message)
		}
		code, e := request(t, root, method, path, `{"prompt":"`+strings.Repeat("x", maxBody)+`"}`)
		require.Contains(t, []int{http.StatusRequestEntityTooLarge, http.StatusBadRequest}, code, rt)
		require.NotEmpty(t, e.Code)
	}
	code, e := request(t, root, http.MethodGet, "/v1/nothing", "")
	require.Equal(t, http.StatusNotFound, code)
	require.Equal(t, api.CodeNotFound, e.Code)
	code, _ = request(t, root, http.MethodDelete, "/v1/ports/a1/99999", "")
	require.Equal(t, http.StatusBadRequest, code)
	code, _ = request(t, root, http.MethodGet, "/v1/agents/a1/logs?lines=-1", "")
	require.Equal(t, http.StatusBadRequest, code)
}

type streaming struct {
	Backend
	hub    *events.Hub
	dir    string
	screen wire.Screen
}

func (s streaming) Events() *events.Hub { return s.hub }
func (s streaming) Screen(context.Context, string, int) (wire.Screen, bool) {
	return s.screen, s.screen.Terminal
}
func (s streaming) LogDir(string) (string, error) { return s.dir, nil }

// serve runs a real server on a real socket, so that peer credentials count.
func serve(t *testing.T, b Backend) *http.Client {
	sock := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", sock)
	require.NoError(t, err)
	s := &Server{Backend: b, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	s.Open()
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	c := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", sock)
	}}}
	t.Cleanup(func() {
		c.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		require.NoError(t, s.Close(ctx))
		require.NoError(t, <-done)
	})
	return c
}

// TestACloseBeforeServeCounts: a signal may come before the goroutine that serves runs.
func TestACloseBeforeServeCounts(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	s := &Server{Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	s.Open()
	require.NoError(t, s.Close(t.Context()))
	require.NoError(t, s.Serve(l))
	require.ErrorIs(t, l.Close(), net.ErrClosed)
}

func TestEventsStreamResumes(t *testing.T) {
	hub := events.New(0)
	c := serve(t, streaming{hub: hub})
	for range 3 {
		hub.Publish(api.Event{Type: "x", Message: "m"})
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://polis/v1/events?follow=1", nil)
	require.NoError(t, err)
	req.Header.Set("Last-Event-ID", "2")
	resp, err := c.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	buf := make([]byte, 4096)
	n, err := resp.Body.Read(buf)
	require.NoError(t, err)
	require.Contains(t, string(buf[:n]), "id: 3\n")
	require.NotContains(t, string(buf[:n]), "id: 2\n")
	hub.Publish(api.Event{Type: "y"})
	n, err = resp.Body.Read(buf)
	require.NoError(t, err)
	require.Contains(t, string(buf[:n]), "id: 4\n")
}

// TestAGapInTheEventsIsSaid: by who resumes from what is not kept any more, in
// an answer and in a stream, once.
func TestAGapInTheEventsIsSaid(t *testing.T) {
	hub := events.New(1000)
	hub.Size = 4
	c := serve(t, streaming{hub: hub})
	for range 9 {
		hub.Publish(api.Event{Type: "x", Message: "m"})
	}
	get := func(q string) []string {
		resp, err := c.Get("http://polis/v1/events?since=" + q)
		require.NoError(t, err)
		defer resp.Body.Close()
		var all struct{ Events []api.Event }
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&all))
		var out []string
		for _, e := range all.Events {
			out = append(out, fmt.Sprint(e.ID, e.Type))
		}
		return out
	}
	require.Equal(t, []string{"1008x", "1009x"}, get("1007"))
	require.Equal(t, "1001events:missed", get("1001")[0])
	require.Equal(t, "17events:missed", get("17")[0], "of an earlier life")
	require.Equal(t, "5000events:missed", get("5000")[0], "of another daemon")
	require.NotContains(t, strings.Join(get("0"), " "), "missed", "a caller that asks for the first event there is misses nothing")

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://polis/v1/events?follow=1", nil)
	require.NoError(t, err)
	req.Header.Set("Last-Event-ID", "1001")
	resp, err := c.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	var got string
	buf := make([]byte, 4096)
	for !strings.Contains(got, "id: 1010") {
		n, err := resp.Body.Read(buf)
		require.NoError(t, err)
		if got += string(buf[:n]); strings.Contains(got, "id: 1009") && hub.Last() == 1009 {
			hub.Publish(api.Event{Type: "y"})
		}
	}
	require.True(t, strings.HasPrefix(got, "id: 1001\nevent: events:missed\n"), got)
	require.Equal(t, 1, strings.Count(got, "events:missed\n"))
}

func TestLogsTailAcrossRotationAndFollow(t *testing.T) {
	dir := t.TempDir()
	p := filepath.Join(dir, "output.log")
	c := serve(t, streaming{dir: dir})
	get := func(q string) string {
		resp, err := c.Get("http://polis/v1/agents/a1/logs?" + q)
		require.NoError(t, err)
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return string(b)
	}
	require.Empty(t, get("lines=5"))
	require.NoError(t, os.WriteFile(p+".1", []byte("1\n2\n3\n"), 0o600))
	require.NoError(t, os.WriteFile(p, []byte("4\n5"), 0o600))
	require.Equal(t, "3\n4\n5", get("lines=3"))
	require.Equal(t, "5", get("lines=1"))
	require.Equal(t, "1\n2\n3\n4\n5", get("lines=50"))
	require.Empty(t, get("lines=0"))
	resp, err := c.Get("http://polis/v1/agents/a1/logs?lines=1&follow=1")
	require.NoError(t, err)
	defer resp.Body.Close()
	buf := make([]byte, 64)
	n, err := resp.Body.Read(buf)
	require.NoError(t, err)
	require.Equal(t, "5", string(buf[:n]))
	require.NoError(t, os.Rename(p, p+".1"))
	require.NoError(t, os.WriteFile(p, []byte("six\n"), 0o600))
	n, err = resp.Body.Read(buf)
	require.NoError(t, err)
	require.Equal(t, "six\n", string(buf[:n]))
}

func TestABodyThatIsTooLargeIsRefused(t *testing.T) {
	code, e := request(t, &unix.Ucred{Uid: 0}, http.MethodPost, "/v1/agents/a1/run", `{"prompt":"`+strings.Repeat("x", maxBody)+`"}`)
	require.Equal(t, http.StatusRequestEntityTooLarge, code)
	require.Equal(t, api.CodeTooLarge, e.Code)
}
