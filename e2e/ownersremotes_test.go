package e2e

import (
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRemotesAreReachedByTheOwnersConditionalConfiguration: an ssh command and a header that the owner has only for projects in
// one directory, for an agent's fetch and push, and for a pull request. An agent's own command is never used.
func TestRemotesAreReachedByTheOwnersConditionalConfiguration(t *testing.T) {
	needProgram(t, "git")
	d := startDaemon(t, options{user: homeOwner, config: "[git]\nremote = \"push\"\nbranches = [\"topic\"]\n"})
	const header = "Authorization: Basic "
	credentials := base64.StdEncoding.EncodeToString([]byte("robot:" + remoteSecret))
	repo := d.ownersProject(map[string]string{
		".gitconfig": fmt.Sprintf("[includeIf \"gitdir:%s/\"]\n\tpath = work.inc\n[includeIf \"gitdir:/nowhere/\"]\n\tpath = other.inc\n", d.path("src")),
		"work.inc":   "[core]\n\tsshCommand = " + d.path("home", "as-ssh") + " --work\n[http]\n\textraHeader = " + header + credentials + "\n",
		"other.inc":  "[core]\n\tsshCommand = false\n",
		// It is what ssh is for git: it runs the command on the other machine, which is this one here.
		"as-ssh": "#!/bin/sh\ntest \"$1\" = --work || exit 99\ncase \"$2\" in -G) exit 1;; esac\nfor last; do :; done\necho \"$(id -u) $HOME $last\" >> " + d.path("home", "calls") + "\nexec sh -c \"$last\"\n",
	})
	require.NoError(t, os.Chmod(d.path("home", "as-ssh"), 0o755))
	bare := d.path("srv", "far.git")
	require.NoError(t, os.MkdirAll(d.path("srv"), 0o755))
	require.NoError(t, chownAll(repo, 0))
	git(t, d.dir, "clone", "-q", "--bare", repo, bare)
	git(t, bare, "config", "http.receivepack", "true")
	url, _ := gitServer(t, d.path("srv"))
	git(t, repo, "remote", "add", "origin", "ssh://git@work.example"+bare)
	git(t, repo, "remote", "add", "web", url+"/far.git")
	d.toOwner(repo)
	d.must("up", "--repo", repo, d.path("ws"))
	d.add("alice")
	calls := func() string {
		text := readFile(d.path("home", "calls"))
		require.NoError(t, os.Remove(d.path("home", "calls")))
		return text
	}

	// The broker: the far side's files belong to the owner when ssh writes them, and to root for the server.
	d.toOwner(d.path("srv"))
	d.sh("alice", "git config core.sshCommand /bin/false; git fetch -q origin")
	require.Contains(t, calls(), fmt.Sprintf("%d %s git-upload-pack '%s'", homeOwner, d.path("home"), bare))
	d.sh("alice", ident+"echo a > a.txt; git add -A; git commit -qm a; git push -q origin HEAD:topic")
	require.Contains(t, calls(), "git-receive-pack")
	head := d.sh("alice", "git rev-parse HEAD")
	require.Equal(t, head, git(t, bare, "rev-parse", "topic"))

	// A pull request.
	r := d.ctl("agents", "pr", "alice")
	require.Contains(t, calls(), "git-receive-pack", r)
	require.Equal(t, head, git(t, bare, "rev-parse", "agent/alice"))

	// The header.
	require.NoError(t, chownAll(d.path("srv"), 0))
	d.sh("alice", "git fetch -q web; echo b > b.txt; git add -A; git commit -qm b; git push -q web HEAD:topic")
	head = d.sh("alice", "git rev-parse HEAD")
	require.Equal(t, head, git(t, bare, "rev-parse", "topic"))
	d.sh("alice", "git push -q web --delete topic")
	r = d.ctl("agents", "pr", "alice", "--remote", "web")
	require.Equal(t, head, git(t, bare, "rev-parse", "agent/alice"), r)
	seen := d.sh("alice", "env; git config -l; cat /run/polis/gitconfig; git fetch -v web 2>&1; ls -a ~")
	for _, secret := range []string{credentials, "as-ssh", remoteSecret} {
		require.NotContains(t, seen, secret)
	}
	require.NotContains(t, strings.ToLower(d.log()), strings.ToLower(credentials))
}
