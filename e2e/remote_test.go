package e2e

import (
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

const remoteSecret = "s3cr3t-of-the-owner"

// gitServer serves root with git's own http-backend to who knows the password.
// refused counts requests with a wrong one.
func gitServer(t *testing.T, root string) (url string, refused *atomic.Int64) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	require.NoError(t, err)
	h := &cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"), Root: "/",
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=robot", "GIT_CONFIG_NOSYSTEM=1", "HOME=/nonexistent"}}
	refused = &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, ok := r.BasicAuth(); !ok || u != "robot" || p != remoteSecret {
			if ok {
				refused.Add(1)
			}
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, refused
}

// Agents use the project's remotes with plain git, as their rules allow, and never see the owner's
// credentials.
func TestRemotesOfTheProject(t *testing.T) {
	needProgram(t, "git")
	d := startDaemon(t, options{config: `
[git.agents.alice]
remote = "push"
branches = ["shared/*"]
[git.agents.carol]
remote = "fetch"
`})
	src := d.smallRepo()
	require.NoError(t, chownAll(src, 0))
	require.NoError(t, os.MkdirAll(d.path("srv"), 0o755))
	bare := d.path("srv", "remote.git")
	git(t, d.dir, "clone", "-q", "--bare", src, bare)
	git(t, bare, "config", "http.receivepack", "true")
	git(t, bare, "branch", "elsewhere")
	git(t, bare, "tag", "-a", "-m", "v1", "v1")
	url, wrong := gitServer(t, d.path("srv"))
	git(t, src, "remote", "add", "origin", strings.Replace(url, "://", "://robot:"+remoteSecret+"@", 1)+"/remote.git")
	git(t, src, "remote", "add", "helped", url+"/remote.git")
	git(t, src, "config", "credential."+url+".helper", "!f() { echo username=robot; echo password="+remoteSecret+"; }; f")
	git(t, d.dir, "clone", "-q", "--bare", src, d.path("backup.git"))
	require.NoError(t, chownAll(d.path("backup.git"), owner))
	git(t, src, "remote", "add", "backup", d.path("backup.git"))
	git(t, src, "remote", "add", "ssh", "git@host.invalid:x.git")
	require.NoError(t, chownAll(src, owner))
	d.must("up", "--repo", src, d.path("ws"))
	for _, name := range []string{"alice", "bob", "carol"} {
		d.add(name)
	}

	r := d.exec("bob", "git", "fetch", "origin")
	require.NotZero(t, r.code)
	require.Contains(t, r.stderr, `agent bob may not fetch: git.remote is "none"`)
	require.Contains(t, r.stderr, "git.agents.bob")
	require.NotZero(t, d.exec("bob", "git", "ls-remote", "origin").code)

	for _, remote := range []string{"origin", "helped", "backup"} {
		d.sh("carol", "git fetch -q "+remote+" && git rev-parse -q --verify "+remote+"/main")
		r = d.exec("carol", "git", "push", remote, "HEAD")
		require.NotZero(t, r.code)
		require.Contains(t, r.stderr, `agent carol may not push: git.remote is "fetch"`)
	}
	require.Equal(t, git(t, bare, "rev-parse", "elsewhere"), d.sh("carol", "git fetch -q --tags origin; git cat-file -t v1 >/dev/null; git rev-parse origin/elsewhere"))
	r = d.exec("carol", "git", "fetch", "ssh")
	require.NotZero(t, r.code)
	require.NotZero(t, d.exec("carol", "git", "fetch", "none").code)

	out := d.sh("alice", ident+"echo a > a.txt; git add -A; git commit -qm a; git push -q -u origin HEAD 2>&1; git rev-parse HEAD")
	require.Equal(t, git(t, bare, "rev-parse", "agent/alice"), out, "a push says nothing when nothing is wrong")
	d.sh("alice", ident+"git commit -q --amend -m b; ! git push -q origin HEAD 2>/tmp/err; grep -q 'non-fast-forward\\|fetch first\\|rejected' /tmp/err; git push -q -f origin HEAD; git push -q helped HEAD:shared/x; git push -q backup HEAD; git tag mine; git push -q origin mine")
	require.Equal(t, d.sh("alice", "git rev-parse HEAD"), git(t, bare, "rev-parse", "agent/alice"))
	require.Equal(t, d.sh("alice", "git rev-parse HEAD"), git(t, d.path("backup.git"), "rev-parse", "agent/alice"))
	main := git(t, bare, "rev-parse", "main")
	for _, bad := range []string{"HEAD:main", "-f HEAD:elsewhere", "HEAD:agent/bob", ":elsewhere", "HEAD:refs/polis/x", "--delete main"} {
		r = d.exec("alice", "sh", "-c", "git fetch -q origin; git push origin "+bad)
		require.NotZero(t, r.code, "%s: %s", bad, r)
	}
	require.Contains(t, d.exec("alice", "git", "push", "origin", "HEAD:main").stderr, "polisctl merge alice")
	require.Equal(t, main, git(t, bare, "rev-parse", "main"))
	d.sh("alice", "git push -q origin --delete agent/alice; ! git rev-parse -q --verify refs/remotes/origin/agent/alice")
	require.NotContains(t, git(t, bare, "branch"), "agent/alice")

	// The daemon's own git continues, and no credential of the owner is visible in an agent.
	seen := d.sh("alice", "env; cat /run/polis/gitconfig; git config -l; git remote -v; cat /run/polis/why.json; git fetch -v origin 2>&1; GIT_TRACE=1 GIT_CURL_VERBOSE=1 git ls-remote helped 2>&1")
	require.NotContains(t, seen, remoteSecret)
	require.Contains(t, seen, url+"/remote.git")
	require.NotContains(t, d.must("events"), remoteSecret)
	require.Contains(t, d.must("events"), "agent alice: push of origin")
	require.NotContains(t, d.log(), remoteSecret)
	require.Zero(t, wrong.Load())

	// A wrong password is not shown either.
	git(t, src, "remote", "set-url", "origin", strings.Replace(url, "://", "://robot:other-secret@", 1)+"/remote.git")
	r = d.exec("alice", "git", "fetch", "origin")
	require.NotZero(t, r.code)
	require.NotContains(t, r.stderr, "other-secret")
	git(t, d.path("ws", ".polis", "bare-repo.git"), "fsck", "--full", "--strict", "--no-dangling")
}

// chownAll gives a tree to uid.
func chownAll(dir string, uid int) error {
	return filepath.Walk(dir, func(path string, _ os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, uid, uid)
	})
}
