package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// http speaks to the daemon's socket directly, as a hostile client would.
func (d *daemon) http() *http.Client {
	return &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", d.path("run", "polisd.sock"))
		}}}
}

// TestEveryRouteRefusesBadInput sends malformed, oversized and hostile bodies to every route that
// takes one. Each gets a clear error, and nothing changes.
func TestEveryRouteRefusesBadInput(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice")
	snapshot := func() string {
		return d.must("-q", "agents", "list") + d.must("--json", "locks") + d.must("--json", "ports", "list")
	}
	before := snapshot()
	long := strings.Repeat("x", 1<<20)
	bodies := map[string]string{
		"empty": "", "not json": "{", "array": "[]", "null": "null", "wrong types": `{"name":1,"repo":[],"path":{},"internal":"x","prompt":7,"agent":false}`,
		"unknown field": `{"surprise":true}`, "trailing": `{} {}`, "nul": "{\"name\":\"a\\u0000b\",\"path\":\"a\\u0000b\",\"repo\":\"/\\u0000\",\"prompt\":\"\\u0000\"}",
		"deep": strings.Repeat(`{"policy":`, 10000), "long name": `{"name":"` + strings.Repeat("a", 10000) + `","base_type":"custom"}`,
		"traversal": `{"name":"../../etc","path":"../../etc/passwd","repo":"../x","agent":"../alice","internal":-1,"prompt":""}`,
		"numbers":   `{"name":"bob","base_type":"custom","memory_limit_mb":-5,"ports":[0,70000],"agent":"alice","internal":99999999999,"path":"x","for_seconds":-1}`,
		"branch":    `{"name":"bob","base_type":"custom","branch":"--upload-pack=touch /tmp/x"}`, "command": `{"name":"bob","base_type":"custom","command":[""]}`,
	}
	routes := []string{"POST /v1/workspaces", "POST /v1/agents", "POST /v1/agents/alice/run", "POST /v1/agents/nobody/run", "POST /v1/locks", "DELETE /v1/locks", "POST /v1/ports"}
	c := d.http()
	send := func(route, body string) (int, string) {
		method, path, _ := strings.Cut(route, " ")
		req, err := http.NewRequestWithContext(t.Context(), method, "http://polis"+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		resp, err := c.Do(req)
		require.NoError(t, err, "%s %.60s", route, body)
		defer resp.Body.Close()
		b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		require.NoError(t, err)
		return resp.StatusCode, string(b)
	}
	for _, route := range routes {
		for name, body := range bodies {
			status, text := send(route, body)
			require.True(t, status >= 400 && status < 500, "%s, %s: %d %.300s", route, name, status, text)
			var e api.Error
			require.NoError(t, json.Unmarshal([]byte(text), &e), "%s, %s: %.300s", route, name, text)
			require.NotEmpty(t, e.Code)
			require.NotEmpty(t, e.Message)
			require.Less(t, len(text), 8<<10, "an error does not send the input back")
		}
	}
	status, _ := send("POST /v1/agents", `{"name":"`+strings.Repeat(long, 8)+`"}`)
	require.True(t, status == http.StatusRequestEntityTooLarge || status == http.StatusBadRequest, "%d", status)
	for _, route := range []string{"GET /v1/nothing", "GET /", "GET /v1/agents/nobody", "GET /v1/agents/..%2f..%2fetc", "DELETE /v1/agents/nobody", "POST /v1/agents/nobody/start",
		"POST /v1/agents/nobody/stop", "POST /v1/agents/nobody/merge", "POST /v1/agents/nobody/discard", "GET /v1/agents/nobody/logs", "GET /v1/agents/nobody/why", "GET /v1/agents/nobody/policy",
		"GET /v1/agents/nobody/tasks", "GET /v1/agents/nobody/attach", "DELETE /v1/ports/nobody/3000", "DELETE /v1/ports/alice/x", "GET /v1/agents/alice/logs?lines=-1", "GET /v1/agents/alice/logs?lines=many", "GET /v1/events?since=x", "PATCH /v1/agents", "PUT /v1/status"} {
		status, text := send(route, "")
		require.True(t, status >= 400 && status < 500, "%s: %d %.300s", route, status, text)
	}
	// Silent connections and random bytes have no effect.
	for range 50 {
		n, err := net.Dial("unix", d.path("run", "polisd.sock"))
		require.NoError(t, err)
		t.Cleanup(func() { n.Close() })
	}
	n, err := net.Dial("unix", d.path("run", "polisd.sock"))
	require.NoError(t, err)
	fmt.Fprintf(n, "\x16\x03\x01 garbage\r\n\r\n")
	n.Close()
	require.Equal(t, before, snapshot())
	require.Equal(t, "ok\n", d.sh("alice", "echo ok"))
}

// TestEveryVerbRefusesBadInput does the same at the command line.
func TestEveryVerbRefusesBadInput(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice")
	list := d.must("-q", "agents", "list")
	for _, verb := range [][]string{{"remove"}, {"start"}, {"stop"}, {"exec", "--", "true"}, {"shell"}, {"watch"}, {"run", "hello"}, {"why"}, {"policy"}, {"locks"}, {"tasks"}, {"attach"}} {
		args := append([]string{"agents", verb[0], "nobody"}, verb[1:]...)
		e := d.refused(api.CodeAgentNotFound, args...)
		require.NotEmpty(t, e.Hint, "%v says what to do next", args)
	}
	for _, args := range [][]string{{"merge", "nobody"}, {"discard", "nobody", "--yes"}, {"ports", "add", "nobody", "80"}, {"ports", "remove", "nobody", "80"}, {"ports", "list", "nobody"}, {"agents", "add"}} {
		r := d.ctl(args...)
		require.NotZero(t, r.code, "%v", args)
		require.NotEmpty(t, r.stderr, "%v", args)
		require.NotContains(t, r.stderr, "goroutine")
	}
	for _, args := range [][]string{
		{"nonsense"}, {"agents", "nonsense"}, {"agents", "add", "bob"}, {"agents", "add", "bob", "--base"}, {"agents", "add", "bob", "--base", "custom", "--memory", "lots"},
		{"agents", "add", "bob", "--base", "custom", "--memory", "-1"}, {"agents", "add", "bob", "--base", "custom", "--port", "99999"}, {"agents", "add", "bob", "--base", "custom", "--read", "[a"},
		{"agents", "add", "bob", "--base", "custom", "--branch", "a..b"}, {"agents", "add", "bob", "--base", "custom", "--branch", "-x"}, {"agents", "add", "bob", "--base", "custom", "--branch", "main"},
		{"agents", "add", "bob", "--base", "custom", "--workspace", "other"}, {"agents", "watch", "alice", "-n", "-3"}, {"agents", "exec", "alice"}, {"ports", "add", "alice", "0"}, {"ports", "add", "alice", "x"},
		{"lock"}, {"lock", ""}, {"lock", "main.txt", "--for", "-3s"}, {"up", "--repo", "/nonexistent"}, {"up", "--repo", d.path("polisd.toml")}, {"up", "--repo", "ext::sh -c id"}, {"up", "--repo", "--upload-pack=id"},
		{"--socket", "/nonexistent", "status"}, {"--timeout", "x", "status"}, {"--json", "-q", "status"},
	} {
		r := d.ctl(args...)
		require.NotZero(t, r.code, "%v: %s", args, r)
		require.NotEmpty(t, strings.TrimSpace(r.stderr+r.stdout), "%v", args)
		require.NotContains(t, r.stderr, "goroutine", "%v", args)
	}
	require.Equal(t, list, d.must("-q", "agents", "list"))
	require.Len(t, glob(d.path("ws", ".polis", "worktrees", "*")), 1)
}

// TestUpFindsWhatIsThere: a second up changes nothing and keeps every agent.
func TestUpFindsWhatIsThere(t *testing.T) {
	d := startDaemon(t, options{})
	repo := d.up()
	d.add("alice")
	d.sh("alice", "echo x > x.txt")
	var up api.UpResponse
	decode(t, d.must("--json", "up", "--repo", repo, d.path("ws")), &up)
	require.False(t, up.Created)
	require.Equal(t, 1, up.Workspace.Agents)
	require.Equal(t, "x\n", d.sh("alice", "cat x.txt"))
	// For a URL, polisd chooses the directory.
	decode(t, d.must("--json", "up", "--repo", "file://"+repo, d.path("ws2")), &up)
	require.True(t, up.Created)
	require.Equal(t, "main", up.Workspace.TargetBranch)
	d.must("agents", "add", "bob", "--base", "custom", "--workspace", up.Workspace.Name)
	require.Equal(t, "one\ntwo\nthree\n", d.sh("bob", "cat main.txt"))
}
