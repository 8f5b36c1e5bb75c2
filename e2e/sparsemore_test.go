package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestABranchOfASparseAgentGoesBackWithoutASavedIndex: git sees what the checkout has not as unchanged, not as removed.
func TestABranchOfASparseAgentGoesBackWithoutASavedIndex(t *testing.T) {
	d := sparseBedOf(t, "[snapshots]\nevery = \"0s\"\n")
	d.add("alice", "--sparse", "lib")
	for _, c := range []struct{ name, flag string }{{"branch", "--branch"}, {"files", ""}} {
		t.Run(c.name, func(t *testing.T) {
			// A checkpoint has no index of more than 128 MiB, nor one that is missing.
			d.sh("alice", ident+"echo one >> lib/a.txt; git commit -qam one; mv $(git rev-parse --git-dir)/index $TMPDIR/index")
			first := d.checkpoint("alice")
			d.sh("alice", ident+"mv $TMPDIR/index $(git rev-parse --git-dir)/index; git sparse-checkout add web; echo two >> lib/a.txt; echo two >> web/index.txt; rm lib/deep/b.txt; git commit -qam two")
			args := []string{"alice", "--to", first.ID}
			if c.flag != "" {
				args = append(args, c.flag)
			}
			d.rewind(args[0], args[1:]...)
			require.Equal(t, "lib/a.txt\nlib/deep/b.txt\n", d.sh("alice", "ls lib/a.txt lib/deep/b.txt; test ! -e web; test ! -e other"))
			if c.flag != "" {
				require.Equal(t, "one\n", d.sh("alice", clean+"git log -1 --format=%s"))
				d.sh("alice", "git sparse-checkout reapply; "+clean+"test -e web/index.txt; test ! -e other; git sparse-checkout set lib; test ! -e web")
				return
			}
			// The branch stays, and what it added to the file outside is not seen as removed.
			require.Equal(t, " M lib/a.txt\n?? lib/deep/\n", d.sh("alice", "git status --porcelain"))
		})
	}
}

// TestRulesKeepTheSparseCheckoutThatTheAgentWidened, also after several starts, and when no rule withholds a file any more.
func TestRulesKeepTheSparseCheckoutThatTheAgentWidened(t *testing.T) {
	d := sparseBed(t)
	d.commit("echo key > lib/key; echo key > web/key")
	again := func(flags ...string) {
		t.Helper()
		d.must(append([]string{"agents", "set", "alice"}, flags...)...)
		d.must("agents", "stop", "alice")
		d.must("agents", "start", "alice")
	}
	d.add("alice", "--sparse", "lib")
	d.sh("alice", "git sparse-checkout add web/app; echo mine >> web/app/c.txt")
	const files = "lib/a.txt\nlib/deep/b.txt\nweb/app/c.txt\nweb/index.txt\n"
	for range 2 {
		again("--hide", "**/key")
		require.Equal(t, " M web/app/c.txt\n"+files, d.sh("alice", "git status --porcelain; "+tracked+"; test ! -e web/site"))
		require.Equal(t, []string{"lib", "web/app"}, d.sparseOf("alice"))
	}
	d.stop()
	d.start()
	d.must("agents", "fork", "alice", "bob")
	require.Equal(t, files, d.sh("bob", tracked))
	d.sh("alice", ident+"git commit -qam mine; git checkout -q HEAD~1; "+clean+"git checkout -q -; "+clean+tracked)
	again("--hide", "none")
	require.Equal(t, "lib\nweb/app\n", d.sh("alice", clean+"git sparse-checkout list"))
	require.Equal(t, "lib/a.txt\nlib/deep/b.txt\nlib/key\nweb/app/c.txt\nweb/index.txt\nweb/key\n", d.sh("alice", "git sparse-checkout reapply; "+clean+tracked))
	// One that has ended its sparse checkout keeps all files, less those that are withheld.
	d.sh("alice", "git sparse-checkout disable; "+clean+"test -e other/e.txt")
	again("--hide", "**/key")
	require.Contains(t, d.sh("alice", "git reset -q --hard; "+clean+tracked), "other/e.txt\nweb/app/c.txt\nweb/index.txt\nweb/site/d.txt\n")
	again("--hide", "none")
	require.Contains(t, d.sh("alice", clean+tracked), "other/e.txt\n")
}

// TestASparseAgentWithASplitIndexFollowsTheTarget: git has one part of such an index in another file.
func TestASparseAgentWithASplitIndexFollowsTheTarget(t *testing.T) {
	d := sparseBed(t)
	d.worker("alice", "--sparse", "lib")
	d.sh("alice", "git config core.splitIndex true; git update-index --split-index; test -n \"$(git rev-parse --shared-index-path)\"")
	for _, n := range []string{"1", "2"} {
		d.commit("echo " + n + " >> lib/a.txt; echo " + n + " >> other/e.txt; for i in $(seq 30); do echo " + n + " > lib/new" + n + "-$i; echo " + n + " > other/$i; done")
		d.must("agents", "run", "alice", "true")
		d.settled("alice") // what is committed later is not its work, which would be merged
		require.Equal(t, strings.TrimSpace(git(t, d.path("ws", "project"), "rev-parse", "HEAD")), strings.TrimSpace(d.sh("alice", "git rev-parse HEAD")))
		require.Equal(t, n+"\n", d.sh("alice", clean+"tail -n1 lib/a.txt; test -e lib/new"+n+"-30; test ! -e other"))
		d.sh("alice", "git update-index --split-index; test -n \"$(git rev-parse --shared-index-path)\"")
	}
	// The other verbs know such an index, too.
	first := d.checkpoint("alice")
	d.sh("alice", ident+"echo mine >> lib/a.txt; git commit -qam mine; git sparse-checkout add other; rm lib/new1-1; git update-index --split-index")
	d.rewind("alice", "--to", first.ID)
	require.Equal(t, " M lib/a.txt\n", d.sh("alice", "git status --porcelain; test ! -e other"))
	d.rewind("alice", "--branch", "--to", first.ID)
	require.Empty(t, d.sh("alice", "git status --porcelain; test ! -e other"))
	d.sh("alice", "echo more >> lib/a.txt; git update-index --split-index")
	d.must("agents", "fork", "alice", "bob")
	require.Equal(t, " M lib/a.txt\n", d.sh("bob", "git status --porcelain; test ! -e web"))
	d.sh("alice", "git sparse-checkout set lib")
	d.must("agents", "remove", "alice", "--force")
	d.must("restore", "alice")
	require.Equal(t, " M lib/a.txt\n", d.sh("alice", "git status --porcelain; test ! -e web"))
	// The other file of the saved index is gone with the worktree.
	d.rewind("alice", "--branch", "--to", first.ID)
	require.Empty(t, d.sh("alice", "git status --porcelain; test ! -e other"))
}

// TestASparseAgentPushes what it has committed, with all that is outside of its directories, and fetches.
func TestASparseAgentPushes(t *testing.T) {
	d := sparseBedOf(t, "[roles.pusher.git]\nremote = \"push\"\nbranches = [\"topic\"]\n")
	project := d.path("ws", "project")
	origin := d.path("origin.git")
	git(t, project, "init", "-q", "--bare", "-b", "main", origin)
	git(t, project, "remote", "add", "origin", origin)
	git(t, project, "push", "-q", "origin", "main")
	require.NoError(t, chownAll(origin, owner))
	d.add("alice", "--role", "pusher", "--sparse", "lib", "--hide", "**/key")
	d.add("bob", "--role", "pusher", "--sparse", "web/app")
	d.sh("alice", ident+"echo mine >> lib/a.txt; git commit -qam lib; git push -q origin HEAD:refs/heads/topic")
	require.Equal(t, "M\tlib/a.txt\n", git(t, origin, "diff", "--name-status", "main", "topic"))
	require.Empty(t, git(t, origin, "fsck", "--connectivity-only"))
	require.Equal(t, "lib/a.txt\nmine\n", d.sh("bob", ident+"git fetch -q origin; git merge -q origin/topic; "+clean+"test ! -e lib; git show HEAD:lib/a.txt"))
	d.sh("bob", ident+"echo b >> web/app/c.txt; git commit -qam web; git push -q origin HEAD:refs/heads/topic")
	require.Equal(t, "M\tlib/a.txt\nM\tweb/app/c.txt\n", git(t, origin, "diff", "--name-status", "main", "topic"))
	require.Equal(t, "lib/a.txt\nlib/deep/b.txt\n", d.sh("alice", ident+"git pull -q --no-rebase origin topic; "+clean+tracked))
}
