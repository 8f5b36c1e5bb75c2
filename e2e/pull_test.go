package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// standIn is a GitHub as gh and git see it: repositories over HTTP with a password, and the API on
// a unix socket that gh is configured to use.
type standIn struct {
	t    testing.TB
	host string // of the repositories, with the port
	bare string
	conf string // gh's configuration directory

	mu      sync.Mutex
	opened  map[string]any // input of the mutation that opened the request
	queries []string
}

const pageOf = "https://forge.test/o/r/pull/7"

func newStandIn(d *daemon) *standIn {
	s := &standIn{t: d.t, bare: d.path("forge", "o", "r.git"), conf: d.path("gh")}
	require.NoError(d.t, os.MkdirAll(s.bare, 0o755))
	git(d.t, s.bare, "init", "-q", "--bare", "-b", "main")
	git(d.t, s.bare, "config", "http.receivepack", "true")
	d.giveAway(d.path("forge"))
	core := strings.TrimSpace(git(d.t, "/", "--exec-path"))
	backend := &cgi.Handler{Path: filepath.Join(core, "git-http-backend"),
		Env: []string{"GIT_PROJECT_ROOT=" + d.path("forge"), "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=me", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}}
	repos := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "sekret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="forge"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	d.t.Cleanup(repos.Close)
	s.host = strings.TrimPrefix(repos.URL, "http://")

	sock := d.path("api.sock")
	l, err := net.Listen("unix", sock)
	require.NoError(d.t, err)
	require.NoError(d.t, os.Chmod(sock, 0o777))
	srv := &http.Server{Handler: http.HandlerFunc(s.answer), ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }()
	d.t.Cleanup(func() { _ = srv.Close(); <-done })

	require.NoError(d.t, os.MkdirAll(s.conf, 0o755))
	require.NoError(d.t, os.WriteFile(filepath.Join(s.conf, "config.yml"), []byte("http_unix_socket: "+sock+"\n"), 0o644))
	require.NoError(d.t, os.WriteFile(filepath.Join(s.conf, "hosts.yml"), fmt.Appendf(nil, "\"%s\":\n  oauth_token: sekret\n  user: me\n", s.host), 0o644))
	d.giveAway(s.conf)
	return s
}

// answer is the GraphQL API as gh 2 asks it.
func (s *standIn) answer(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	var q struct {
		Query     string
		Variables map[string]any
	}
	_ = json.Unmarshal(b, &q)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queries = append(s.queries, r.Host+" "+r.Header.Get("Authorization")+" "+q.Query)
	repo := map[string]any{"id": "R1", "name": "r", "owner": map[string]any{"login": "o"}, "viewerPermission": "WRITE", "defaultBranchRef": map[string]any{"name": "main"}, "mergeCommitAllowed": true}
	prs := []any{}
	if s.opened != nil {
		prs = append(prs, map[string]any{"number": 7, "url": pageOf, "state": "OPEN", "baseRefName": "main", "headRefName": s.opened["headRefName"], "isCrossRepository": false, "headRepositoryOwner": map[string]any{"login": "o"}})
	}
	var data any
	switch {
	case strings.Contains(q.Query, "createPullRequest"):
		s.opened, _ = q.Variables["input"].(map[string]any)
		data = map[string]any{"createPullRequest": map[string]any{"pullRequest": map[string]any{"id": "P7", "url": pageOf}}}
	case strings.Contains(q.Query, "pullRequests"):
		repo["pullRequests"] = map[string]any{"nodes": prs}
		data = map[string]any{"repository": repo}
	case strings.Contains(q.Query, "UserCurrent"):
		data = map[string]any{"viewer": map[string]any{"login": "me"}}
	default:
		data = map[string]any{"repository": repo}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"data": data})
}

// pr runs polisctl agents pr with gh's configuration, and returns its answer.
func (s *standIn) pr(d *daemon, args ...string) (api.PullResponse, result) {
	cmd := exec.CommandContext(d.t.Context(), filepath.Join(d.bin, "polisctl"), append([]string{"--json", "agents", "pr"}, args...)...)
	cmd.Env = append(os.Environ(), "POLIS_SOCKET="+d.path("run", "polisd.sock"), "GH_CONFIG_DIR="+s.conf)
	r := capture(cmd, "")
	var resp api.PullResponse
	if r.code == 0 {
		require.NoError(d.t, json.Unmarshal([]byte(r.stdout), &resp), "%s", r)
	}
	return resp, r
}

func TestAPullRequestIsOpenedWithTheRealGH(t *testing.T) {
	needProgram(t, "gh")
	d := startDaemon(t, options{})
	s := newStandIn(d)
	project := d.up()
	git(t, project, "remote", "add", "origin", "http://"+s.host+"/o/r.git")
	helper := d.path("helper")
	require.NoError(t, os.WriteFile(helper, []byte("#!/bin/sh\nid -u >>"+d.path("asked")+"\nprintf 'username=me\\npassword=sekret\\n'\n"), 0o755))
	require.NoError(t, os.WriteFile(d.path("asked"), nil, 0o666))
	require.NoError(t, os.Chmod(d.path("asked"), 0o666))
	git(t, project, "config", "credential.helper", helper)
	d.giveAway(project)

	d.add("claude")
	d.sh("claude", "echo x >>main.txt; git commit -qam 'Say x' -m 'Because of y.'; git config credential.helper '!touch /tmp/never'; git config core.sshCommand /bin/never")

	resp, r := s.pr(d, "claude", "--dry-run")
	require.Zero(t, r.code, "%s", r)
	require.Empty(t, git(t, s.bare, "for-each-ref"), "a dry run pushes nothing")
	require.False(t, resp.Pushed)

	resp, r = s.pr(d, "claude", "--draft")
	require.Zero(t, r.code, "%s", r)
	require.Equal(t, pageOf, resp.URL, "%s\n%s", r, strings.Join(s.queries, "\n"))
	require.Equal(t, "gh", resp.Tool)
	require.Equal(t, "github", resp.Forge)
	require.True(t, resp.Pushed)
	require.Equal(t, 1, resp.Commits)
	require.Contains(t, git(t, s.bare, "for-each-ref", "--format=%(objectname) %(refname)"), resp.Commit+" refs/heads/agent/claude")
	require.Equal(t, "agent/claude", s.opened["headRefName"])
	require.Equal(t, "main", s.opened["baseRefName"])
	require.Equal(t, "Say x", s.opened["title"])
	require.Contains(t, s.opened["body"], "Because of y.")
	require.Equal(t, true, s.opened["draft"])
	require.Contains(t, s.queries[0], "sekret")
	for _, uid := range strings.Fields(readFile(d.path("asked"))) {
		require.Equal(t, fmt.Sprint(owner), uid, "credentials are requested as the owner")
	}
	require.NotEmpty(t, readFile(d.path("asked")))

	// A second time: there is nothing to push, and the open request is found.
	again, r := s.pr(d, "claude")
	require.Zero(t, r.code, "%s", r)
	require.False(t, again.Pushed)
	require.True(t, again.Existed, "%s", r)
	require.Equal(t, pageOf, again.URL)
	require.Contains(t, d.must("events"), "agent:pull-request")

	// A diverged history is replaced only with --force.
	d.sh("claude", "git commit -q --amend -m 'Say it better'")
	_, r = s.pr(d, "claude")
	require.Equal(t, 4, r.code, "%s", r)
	require.Contains(t, r.stderr, string(api.CodeRefConflict))
	require.Contains(t, r.stderr, "look at them; --force replaces what is there now")
	forced, r := s.pr(d, "claude", "--force")
	require.Zero(t, r.code, "%s", r)
	require.True(t, forced.Pushed)
	require.Contains(t, git(t, s.bare, "for-each-ref"), forced.Commit)
}

func TestWithoutAForgeThePullRequestIsDescribed(t *testing.T) {
	// A group polis with a number of the test's own, as far as polisd can see.
	const admins = 4343
	groups := filepath.Join(t.TempDir(), "group")
	require.NoError(t, os.WriteFile(groups, fmt.Appendf(nil, "root:x:0:\npolis:x:%d:\nnogroup:x:65534:\n", admins), 0o644))
	d := startDaemon(t, options{wrap: []string{"unshare", "--mount", "sh", "-ec", `mount --bind "$0" /etc/group; exec "$@"`, groups}})
	project := d.up()
	a := d.add("claude")
	require.Equal(t, api.CodeNothingToMerge, d.refused(api.CodeNothingToMerge, "agents", "pr", "claude").Code)
	d.sh("claude", "echo x >>main.txt; git commit -qam one; echo y >>main.txt; git commit -qam two; echo z >loose.txt")
	require.Contains(t, d.refused(api.CodeBadState, "agents", "pr", "claude").Hint, "remote add")

	bare := d.path("remote.git")
	require.NoError(t, os.CopyFS(bare, os.DirFS(filepath.Join(project, ".git"))))
	git(t, bare, "config", "core.bare", "true")
	d.giveAway(bare)
	git(t, project, "remote", "add", "origin", bare)
	d.giveAway(project)
	out := d.must("agents", "pr", "claude", "--title", "My title")
	for _, want := range []string{"pushed agent/claude", "title: My title", "- one\n- two\n", "The following changes since commit", "are available in the Git repository at:", bare, "warning: not included: 1 uncommitted change of the worktree"} {
		require.Contains(t, out, want)
	}
	require.Contains(t, git(t, bare, "for-each-ref"), "refs/heads/agent/claude")
	require.NotContains(t, git(t, bare, "show", "--stat", "agent/claude"), "loose.txt")
	require.Contains(t, d.must("agents", "pr", "claude"), "already")
	d.refused(api.CodeNotFound, "agents", "pr", "claude", "--remote", "nowhere")
	d.refused(api.CodeAgentNotFound, "agents", "pr", "nobody")
	d.refused(api.CodeBadRequest, "agents", "pr", "claude", "--forge", "cvs")

	// A remote that cannot be reached, and one that says no.
	git(t, project, "remote", "add", "gone", d.path("gone.git"))
	d.giveAway(project)
	require.NotEmpty(t, d.refused(api.CodePushFailed, "agents", "pr", "claude", "--remote", "gone").Hint)
	require.NoError(t, os.WriteFile(filepath.Join(bare, "hooks", "pre-receive"), []byte("#!/bin/sh\necho not today >&2; exit 1\n"), 0o755))
	d.sh("claude", "git commit -q --allow-empty -m three")
	require.Contains(t, d.refused(api.CodePushFailed, "agents", "pr", "claude").Message, "pre-receive")

	// No other user can use the owner's credentials.
	require.NoError(t, os.Chmod(d.path("run", "polisd.sock"), 0o666))
	require.NoError(t, os.Chmod(d.path("run"), 0o755))
	// The tree that is tested may be below a directory that is root's alone.
	program := d.path("polisctl")
	data, err := os.ReadFile(filepath.Join(d.bin, "polisctl"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, data, 0o755))
	for _, c := range []struct {
		uid, gid uint32
		want     int
	}{{owner, admins, 1}, {4242, admins, 5}, {owner, 4242, 5}} {
		cmd := exec.CommandContext(t.Context(), program, "--socket", d.path("run", "polisd.sock"), "agents", "pr", a.Name)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.uid, Gid: c.gid}}
		cmd.Dir = "/"
		r := capture(cmd, "")
		require.Equal(t, c.want, r.code, "uid %d, gid %d: %s", c.uid, c.gid, r)
	}
}
