package e2e

import (
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAgentsReachServicesWithoutTheirKeys: a tracker and a git server, with an agent that reaches nothing else.
func TestAgentsReachServicesWithoutTheirKeys(t *testing.T) {
	needProgram(t, "curl")
	var requests atomic.Int64
	tracker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		w.Header().Set("X-Echo", r.Header.Get("Private-Token"))
		if r.URL.Path == "/api/items/away" {
			http.Redirect(w, r, "http://127.0.0.1:1/?"+r.Header.Get("Private-Token"), http.StatusFound)
			return
		}
		fmt.Fprintf(w, "%s %s with %s\n", r.Method, r.URL.Path, r.Header.Get("Private-Token"))
	}))
	t.Cleanup(tracker.Close)

	// The git server wants the key as the password.
	backend := keyedGit(t, "repo.git")
	gits := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "x-access-token" || password != secondKey {
			http.Error(w, "who are you", http.StatusForbidden)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(gits.Close)

	dir := t.TempDir()
	// The key of the tracker comes from a command, which runs as nobody.
	program := filepath.Join(dir, "print-key")
	for path, mode := range map[string]os.FileMode{filepath.Dir(dir): 0o755, dir: 0o755} {
		require.NoError(t, os.Chmod(path, mode))
	}
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n[ \"$(id -un)\" = nobody ] && [ -z \"$POLIS_SOCKET\" ] && cat "+dir+"/tracker\n"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tracker"), []byte(firstKey), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "git"), []byte(secondKey), 0o600))
	d := startDaemon(t, options{config: `
[network]
egress = "none"
[services.tracker]
url = "` + tracker.URL + `/api"
header = "PRIVATE-TOKEN: {key}"
key_command = ["` + program + `"]
paths = ["/items/**", "POST /items"]
env = { TRACKER = "{url}", TRACKER_TOKEN = "{key}" }
[services.git]
url = "` + gits.URL + `"
header = "Authorization: Basic {base64:x-access-token:{key}}"
key_file = "` + dir + `/git"
methods = ["GET", "POST"]
paths = ["/repo.git/**"]
[services.open]
url = "` + tracker.URL + `"
paths = ["/public"]
requests_per_minute = 2
env = { OPEN_TOKEN = "{key}" }
[roles.with.gateway]
services = ["tracker", "git", "open"]
[roles.other.gateway]
services = ["open"]
`})
	d.up()
	d.add("ana", "--role", "with")
	d.add("bob", "--role", "other")
	d.add("without")

	env := d.sh("ana", "env")
	require.Contains(t, env, "TRACKER=http://tracker.polis.internal:11717\n")
	require.Contains(t, env, "POLIS_SERVICE_GIT=http://git.polis.internal:11717\n")
	require.Contains(t, env, "TRACKER_TOKEN=polis-gateway\n")
	require.NotContains(t, env, "OPEN_TOKEN", "a service without a key sets no placeholder")
	require.NotContains(t, d.sh("without", "env"), "POLIS_SERVICE")

	out := d.sh("ana", `curl -sS -i --max-time 60 -H "PRIVATE-TOKEN: $TRACKER_TOKEN" "$TRACKER/items/1"`)
	require.Contains(t, out, "GET /api/items/1 with "+strings.Repeat("*", len(firstKey)))
	require.NotContains(t, out, firstKey)
	require.Contains(t, d.sh("ana", `curl -sS --max-time 60 http://127.0.0.1:11717/tracker/items/2`), "GET /api/items/2 with *")
	require.Contains(t, d.sh("ana", `curl -sS --max-time 60 -d title=x "$TRACKER/items"`), "POST /api/items with *")
	require.NotContains(t, d.sh("ana", `curl -sS -i --max-time 60 "$TRACKER/items/away"`), firstKey, "a redirect has no key")

	before := requests.Load()
	for script, want := range map[string]string{
		`curl -sS --max-time 60 -X DELETE "$TRACKER/items/1"`:                               "services.tracker.paths",
		`curl -sS --max-time 60 "$TRACKER/admin"`:                                           "services.tracker.paths",
		`curl -sS --max-time 60 --path-as-is "$TRACKER/items/../admin"`:                     "the path must be plain",
		`curl -sS --max-time 60 "$TRACKER/items/%2e%2e/admin"`:                              "the path must be plain",
		`curl -sS --max-time 60 http://secret.polis.internal:11717/`:                        "it has git, open, tracker",
		`curl -sS --max-time 60 -x http://127.0.0.1:11717 http://tracker.polis.internal/`:   "no proxy",
		`curl -sS --max-time 60 -H "Host: evil.example.com" http://127.0.0.1:11717/items/1`: "the Host header",
	} {
		require.Contains(t, d.sh("ana", script), want, script)
	}
	require.Contains(t, d.sh("bob", `curl -sS --max-time 60 http://tracker.polis.internal:11717/items/1`), "it has open")
	require.NotZero(t, d.exec("without", "curl", "-sS", "--max-time", "10", "http://tracker.polis.internal:11717/items/1").code)
	require.NotZero(t, d.exec("ana", "curl", "-sS", "--max-time", "10", tracker.URL).code, "the service itself is not reachable")
	require.Equal(t, before, requests.Load())

	// The limit for each minute is each agent's own.
	const open = `curl -sS --max-time 60 -o /dev/null -w '%{http_code} ' "$POLIS_SERVICE_OPEN/public"`
	require.Equal(t, "200 200 429 ", d.sh("bob", open+";"+open+";"+open))
	require.Equal(t, "200 ", d.sh("ana", open))
	require.Equal(t, before+3, requests.Load())

	// A reload runs the command again.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tracker"), []byte(firstKey+"-and-more"), 0o644))
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGHUP))
	d.eventually("the new key is used", func() bool {
		return strings.Contains(d.sh("ana", `curl -sS --max-time 60 "$TRACKER/items/3"`), "with "+strings.Repeat("*", len(firstKey+"-and-more")))
	})

	// git clones, commits and pushes.
	d.sh("ana", `set -e; cd "$(mktemp -d)"; git clone -q "$POLIS_SERVICE_GIT/repo.git" 2>/dev/null; cd repo; git config user.name a; git config user.email a@example.com
		head -c 200000 /dev/urandom >f; git add f; git commit -qm "a file"; git push -q origin HEAD:main; cd ..; git clone -q "$POLIS_SERVICE_GIT/repo.git" again; cmp repo/f again/f`)

	// Every call is in the log and, equal ones together, an event. The keys are nowhere.
	d.eventually("the calls are logged", func() bool {
		log := ""
		for _, f := range glob(d.path("ws", ".*", "logs", "ana", "services.log")) {
			log += readFile(f)
		}
		return strings.Contains(log, `"service":"tracker","method":"GET","path":"/items/1","status":200`) && strings.Contains(log, `"method":"DELETE","path":"/items/1","status":403,"code":"SERVICE_REQUEST_REFUSED"`) &&
			strings.Contains(log, `"service":"git","method":"POST","path":"/repo.git/git-receive-pack","status":200`)
	})
	d.eventually("the calls are events", func() bool {
		out := d.must("events")
		return strings.Contains(out, "service tracker: DELETE /items/1: 403 (SERVICE_REQUEST_REFUSED)") && strings.Contains(out, "service git: POST /repo.git/git-receive-pack: 200")
	})
	for _, key := range []string{firstKey, secondKey} {
		require.NotContains(t, d.keyOutside(key), "x")
		d.sh("ana", `! grep -rIlF `+key[:12]+` /proc/*/environ ~ /run/polis /etc /tmp . 2>/dev/null`)
	}
}

// keyedGit serves an empty repository at a path by HTTP, also for pushes.
func keyedGit(t *testing.T, path string) http.Handler {
	srv := t.TempDir()
	for _, args := range [][]string{{"init", "-q", "--bare", "-b", "main", path}, {"-C", path, "config", "http.receivepack", "true"}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = srv
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	core, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	require.NoError(t, err)
	return &cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(core)), "git-http-backend"), Env: []string{"GIT_PROJECT_ROOT=" + srv, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=x",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}}
}
