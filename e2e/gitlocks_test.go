package e2e

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// gitLocks returns the locks of git in the table, with their holders.
func (d *daemon) gitLocks() map[string]string {
	out := map[string]string{}
	for k, l := range d.locks() {
		if strings.HasPrefix(k, "ref:") || strings.HasPrefix(k, "repo:") {
			out[k] = l.Holder
		}
	}
	return out
}

// holding starts a process in an agent that creates a lock file of git and keeps it open.
func (d *daemon) holding(agent, file string) {
	d.t.Helper()
	d.sh(agent, "rm -f $HOME/holder; f=$(git rev-parse --git-common-dir)/"+file+`; setsid sh -c "exec 3>$f; echo \$\$ > \$HOME/holder; exec sleep 77777" >/dev/null 2>&1 </dev/null &
for i in $(seq 3000); do test -s $HOME/holder && break; sleep 0.02; done; kill -0 $(cat $HOME/holder)`)
}

// TestGitLocksEndWithTheirFiles: a lock of git in the table ends with its lock file, also at the
// death of the process, of polisd and of the shim.
func TestGitLocksEndWithTheirFiles(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\nhold = \"close\"\nwait = \"0s\"\ngrace = \"2s\"\n"})
	d.up()
	d.add("alice")
	d.add("bob")
	d.sh("alice", ident+"echo a >> main.txt; git commit -qam a; git branch extra")
	d.sh("bob", ident+"echo b > b.txt; git add b.txt; git commit -qm b; git branch bobs")
	const own = "ref:refs/heads/agent/alice"
	bare := d.path("ws", ".polis", "bare-repo.git")
	require.Empty(t, d.gitLocks())

	d.holding("alice", "refs/heads/agent/alice.lock")
	require.Equal(t, map[string]string{own: "alice"}, d.gitLocks())
	d.sh("alice", "git status; git diff; git log -1; git add -A")
	d.sh("bob", "echo b >> b.txt; git commit -qam b2") // another branch
	require.Error(t, d.signal(syscall.SIGKILL))
	d.start()
	d.eventually("the lock to be held again", func() bool { return d.gitLocks()[own] == "alice" })

	d.sh("alice", "kill -9 $(cat $HOME/holder)")
	d.eventually("the lock to go with its process", func() bool { return len(d.gitLocks()) == 0 })
	require.NoFileExists(t, filepath.Join(bare, "refs/heads/agent/alice.lock"))
	require.Contains(t, d.why("alice", "alice.lock"), "has ended")
	d.eventually("an event for it", func() bool {
		for _, e := range d.events("alice") {
			if e.Type == api.EventLock && strings.Contains(e.Message, "stale .git/refs/heads/agent/alice.lock") {
				return true
			}
		}
		return false
	})
	d.sh("alice", "echo c >> main.txt; git commit -qam c")

	// A git that was killed while it had locked the index blocks no other.
	d.sh("alice", `: & setsid sh -c 'exec 3>$(git rev-parse --git-dir)/index.lock; kill -9 $$' & sleep 0.2`)
	d.eventually("git add works again", func() bool { return d.exec("alice", "git", "add", "-A").code == 0 })

	// An agent's gc is in the list of locks, and the commits of others succeed.
	d.holding("alice", "gc.pid.lock")
	require.Equal(t, "alice", d.gitLocks()["repo:exclusive"])
	d.sh("bob", "echo b >> b.txt; git commit -qam b3")
	d.eventually("no git lock is left", func() bool { return len(d.gitLocks()) == 0 })

	// The shim dies while locks are held: the lock files are removed.
	d.holding("alice", "packed-refs.lock")
	require.Equal(t, "alice", d.gitLocks()["ref:packed-refs"])
	require.FileExists(t, filepath.Join(bare, "packed-refs.lock"))
	require.NoError(t, syscall.Kill(d.shim("alice"), syscall.SIGKILL))
	d.eventually("the agent is in Error", func() bool {
		a, _ := d.agent("alice")
		return a.Status == api.StatusError
	})
	require.NoFileExists(t, filepath.Join(bare, "packed-refs.lock"))
	d.eventually("its lock to go", func() bool { return len(d.gitLocks()) == 0 })
	d.sh("bob", "git branch -D bobs; git pack-refs --all")
	d.must("agents", "start", "alice")
	d.sh("alice", "echo d >> main.txt; git commit -qam d; git branch -D extra")
	git(t, bare, "fsck", "--full", "--strict", "--no-dangling")
}
