package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// sparseBed is a workspace whose project has the directories lib, web/app, web/site and docs, and a file at the top. The
// arguments are those of git sparse-checkout in the project; none: it has all files.
func sparseBed(t *testing.T, checkout ...string) *daemon {
	return sparseBedOf(t, "", checkout...)
}

// sparseBedOf is sparseBed with more of the configuration.
func sparseBedOf(t *testing.T, config string, checkout ...string) *daemon {
	d := startDaemon(t, options{config: "[locks]\nhold = \"close\"\n" + config})
	project := d.up()
	for _, file := range []string{"lib/a.txt", "lib/deep/b.txt", "web/index.txt", "web/app/c.txt", "web/site/d.txt", "other/e.txt"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(project, file)), 0o755))
		d.write("ws/project/"+file, file+"\n")
	}
	git(t, project, "add", ".")
	git(t, project, "-c", "user.name=u", "-c", "user.email=u@x", "commit", "-qm", "directories")
	if len(checkout) > 0 {
		git(t, project, append([]string{"sparse-checkout"}, checkout...)...)
	}
	return d
}

// sparseOf are the directories of an agent's sparse checkout.
func (d *daemon) sparseOf(name string) []string {
	a, _ := d.agent(name)
	if a.Sparse == nil {
		return nil
	}
	return a.Sparse.Directories
}

// tracked has the files of an agent that are on the disk and tracked.
const tracked = `git ls-files 'lib/*' 'web/*' 'other/*' | while read f; do test ! -e "$f" || echo "$f"; done`

const clean = `test -z "$(git status --porcelain)" && `

func TestAnAgentHasTheOwnersSparseCheckout(t *testing.T) {
	d := sparseBed(t, "set", "lib", "web/app")
	d.add("alice")
	require.Equal(t, []string{"lib", "web/app"}, d.sparseOf("alice"))
	require.Equal(t, "lib/a.txt\nlib/deep/b.txt\nweb/app/c.txt\nweb/index.txt\n", d.sh("alice", clean+tracked))
	require.Equal(t, "lib\nweb/app\n", d.sh("alice", "git sparse-checkout list"))
	require.Contains(t, d.must("agents", "add", "bob", "--base", "custom", "--sparse", "other", "--", "true"), "other")
	require.Equal(t, "other/e.txt\n", d.sh("bob", clean+tracked))
	d.add("carol", "--no-sparse")
	require.Nil(t, d.sparseOf("carol"))
	require.Contains(t, d.sh("carol", clean+tracked), "web/site/d.txt")
	// The files outside are unchanged in what is committed and merged.
	d.sh("alice", ident+"echo 2 >> lib/a.txt; mkdir lib/new; echo n > lib/new/f; git add -A; git commit -qm lib")
	require.Contains(t, d.must("agents", "diff", "alice"), "lib/new/f")
	require.NotContains(t, d.must("agents", "diff", "alice"), "other")
	d.must("merge", "alice")
	require.Equal(t, "other/e.txt\n", git(t, d.bare(), "show", "main:other/e.txt"))
	require.Equal(t, "n\n", git(t, d.bare(), "show", "main:lib/new/f"))
	require.Equal(t, "lib\nweb/app\n", git(t, d.path("ws", "project"), "sparse-checkout", "list"))
	// A clean agent is removed without --force.
	d.must("agents", "remove", "alice")
	d.must("agents", "remove", "bob")
}

// commit commits what a script changes in the project, on the target.
func (d *daemon) commit(script string) {
	d.t.Helper()
	project := d.path("ws", "project")
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = project
	out, err := cmd.CombinedOutput()
	require.NoError(d.t, err, "%s", out)
	git(d.t, project, "add", "-A")
	git(d.t, project, "-c", "user.name=u", "-c", "user.email=u@x", "commit", "-qm", "change")
}

// The target moves before a task: the files of the checkout follow, and those outside stay away.
// TestTheCheckOfAMergeHasAllFiles, and a change outside of the cone is merged with what git knows.
func TestTheCheckOfAMergeHasAllFiles(t *testing.T) {
	d := sparseBedOf(t, "[merge]\ncheck = \"test -e web/site/d.txt -a -e lib/new.txt\"\n")
	d.add("alice", "--sparse", "lib")
	d.sh("alice", ident+"echo n > lib/new.txt; mkdir -p web/site; echo outside > web/site/more.txt; git add lib; git add --sparse web/site/more.txt; git commit -qm both")
	require.Empty(t, d.sh("alice", "git status --porcelain"))
	d.must("merge", "alice")
	require.Equal(t, "A\tlib/new.txt\nA\tweb/site/more.txt\n", git(t, d.bare(), "diff", "--name-status", "main^1", "main"))
}

// TestATaskOfASparseAgentIsCommittedWhole: also what it changed and made outside of its directories.
func TestATaskOfASparseAgentIsCommittedWhole(t *testing.T) {
	d := sparseBedOf(t, "[roles.auto]\nauto_commit = true\nwrite = [\"**\"]\n")
	d.add("alice", "--base", "custom", "--role", "auto", "--sparse", "lib", "--", "sh", "-c")
	d.must("run", "--wait", "alice", ident+"echo 2 >> lib/a.txt; rm lib/deep/b.txt; mkdir -p other; echo 2 > other/e.txt; echo n > other/new.txt")
	require.Equal(t, "M\tlib/a.txt\nD\tlib/deep/b.txt\nM\tother/e.txt\nA\tother/new.txt\n", git(t, d.bare(), "diff", "--name-status", "main^1", "main"))
}

func TestASparseCheckoutFollowsTheTarget(t *testing.T) {
	d := sparseBed(t)
	d.worker("alice", "--sparse", "lib")
	d.commit("echo 2 >> lib/a.txt; echo 2 >> other/e.txt; mkdir -p more/deep lib/n; echo n > more/deep/f; echo n > lib/n/f; rm web/site/d.txt")
	d.must("agents", "run", "alice", "true")
	d.settled("alice") // what is committed later is not its work, which would be merged
	require.Equal(t, "lib/a.txt\nlib/deep/b.txt\nlib/n/f\n", d.sh("alice", clean+tracked+"; test ! -e more; test ! -e other"))
	require.Equal(t, strings.TrimSpace(git(t, d.path("ws", "project"), "rev-parse", "HEAD")), strings.TrimSpace(d.sh("alice", "git rev-parse HEAD")))
	// The agent's own git merges as in any sparse checkout.
	d.sh("alice", ident+"echo mine > lib/mine; git add -A; git commit -qm mine")
	d.commit("echo 3 >> other/e.txt; echo 3 >> lib/deep/b.txt; mkdir lib/p; echo p > lib/p/f")
	d.sh("alice", ident+"git merge -q -m merged main; "+clean+"test ! -e other")
	d.must("merge", "alice")
	require.Equal(t, "other/e.txt\n2\n3\n", git(t, d.bare(), "show", "main:other/e.txt"))
	require.Equal(t, "n\n", git(t, d.bare(), "show", "main:more/deep/f"))
	require.Equal(t, "mine\n", git(t, d.bare(), "show", "main:lib/mine"))
}

// A fork, a restored agent and one that polisd finds after a restart have the sparse checkout that the agent's git had last,
// and all of its work.
func TestASparseCheckoutIsForkedAndRestored(t *testing.T) {
	d := sparseBed(t)
	d.add("alice", "--sparse", "lib")
	d.sh("alice", "git sparse-checkout add web/app; test -e web/app/c.txt; test ! -e web/site")
	// What is made outside is work.
	const make = "echo changed >> lib/a.txt; rm lib/deep/b.txt; mkdir -p other elsewhere; echo new > other/new.txt; echo far > elsewhere/f; echo staged > other/staged; git add --sparse other/staged"
	d.sh("alice", make)
	const state = "git status --porcelain -uall | sort; " + tracked + "; git sparse-checkout list; cat other/new.txt elsewhere/f other/staged lib/a.txt"
	want := d.sh("alice", state)
	require.Contains(t, want, "?? elsewhere/f")
	require.Contains(t, want, " D lib/deep/b.txt")
	require.NotContains(t, want, "other/e.txt")
	d.refused(api.CodeUnsavedWork, "agents", "remove", "alice")
	d.must("agents", "fork", "alice", "bob")
	require.Equal(t, want, d.sh("bob", state))
	require.Equal(t, []string{"lib", "web/app"}, d.sparseOf("bob"))
	d.stop()
	d.start()
	require.Equal(t, want, d.sh("alice", state))
	d.must("agents", "remove", "alice", "--force")
	d.must("restore", "alice")
	require.Equal(t, want, d.sh("alice", state))
	require.Equal(t, []string{"lib", "web/app"}, d.sparseOf("alice"))
	// An agent that has ended its sparse checkout is forked with all files.
	d.sh("bob", "git stash -qu; git sparse-checkout disable; "+clean+"test -e web/site/d.txt")
	d.must("agents", "fork", "bob", "carol")
	require.Nil(t, d.sparseOf("carol"))
	require.Contains(t, d.sh("carol", clean+tracked), "web/site/d.txt")
}

// A rewind to a time before the agent widened its checkout removes no file for git.
func TestASparseCheckoutIsRewound(t *testing.T) {
	d := sparseBed(t)
	d.add("alice", "--sparse", "lib")
	d.sh("alice", "echo one >> lib/a.txt")
	first := d.checkpoint("alice")
	d.sh("alice", "git sparse-checkout add web other; test -e web/site/d.txt; rm web/index.txt; echo two >> lib/a.txt; echo two >> other/e.txt; rm lib/deep/b.txt")
	d.rewind("alice", "--to", first.ID)
	require.Equal(t, " M lib/a.txt\nlib/a.txt\nlib/deep/b.txt\none\n", d.sh("alice", "git status --porcelain; "+tracked+"; tail -n1 lib/a.txt"))
	d.sh("alice", ident+"git commit -qam one; test -z \"$(git show --name-only --format= HEAD | grep -v lib/a.txt)\"; git sparse-checkout reapply; "+clean+"test -e web/index.txt")
}

// TestAPathOfASparseCheckoutIsRewound: what was not checked out then is not seen as removed, and not committed so.
func TestAPathOfASparseCheckoutIsRewound(t *testing.T) {
	d := sparseBed(t)
	d.add("alice", "--sparse", "lib")
	d.sh("alice", "echo one >> lib/a.txt")
	first := d.checkpoint("alice")
	d.sh("alice", "git sparse-checkout add web; echo two >> web/index.txt; echo two >> lib/a.txt")
	d.rewind("alice", "web", "--to", first.ID)
	require.Equal(t, " M lib/a.txt\n", d.sh("alice", "git status --porcelain"))
	d.sh("alice", ident+"git commit -qam two")
	d.must("merge", "alice")
	require.Equal(t, "M\tlib/a.txt\n", git(t, d.bare(), "diff", "--name-status", "main^1", "main"))
}

// Rules that withhold files and a sparse checkout hold together, whichever changes.
func TestASparseCheckoutBesideWithheldFiles(t *testing.T) {
	d := sparseBed(t)
	d.commit("echo key > lib/key; echo key > other/key")
	d.add("alice", "--sparse", "lib", "--hide", "**/key")
	d.add("bob")
	require.Equal(t, "lib/a.txt\nlib/deep/b.txt\n", d.sh("alice", clean+tracked+"; test ! -e other; test ! -e web"))
	d.sh("bob", ident+"echo 2 > lib/key; mkdir lib/sub; echo 2 > lib/sub/key; echo 2 > lib/b2; echo 2 > other/e.txt; git add -A; git commit -qm two")
	d.must("merge", "bob")
	d.sh("alice", ident+"echo own > lib/own; git add -A; git commit -qm own; git merge -q -m merged main; "+clean+"test -e lib/b2; test ! -e other; test ! -e lib/sub")
	d.must("merge", "alice")
	require.Equal(t, "2\n", git(t, d.bare(), "show", "main:lib/sub/key"))
	require.Equal(t, "2\n", git(t, d.bare(), "show", "main:other/e.txt"))
	// Without the rule the files of the directories are there, and the others are not.
	d.must("agents", "set", "alice", "--hide", "none")
	d.must("agents", "stop", "alice")
	d.must("agents", "start", "alice")
	require.Equal(t, "lib/a.txt\nlib/b2\nlib/deep/b.txt\nlib/key\nlib/own\nlib/sub/key\n", d.sh("alice", "git sparse-checkout reapply; "+clean+tracked))
	require.Equal(t, "2\n", d.sh("alice", "test ! -e other; cat lib/key"))
	d.must("agents", "set", "alice", "--hide", "lib/deep/**")
	d.must("agents", "stop", "alice")
	d.must("agents", "start", "alice")
	d.sh("alice", ident+"echo 2 >> lib/own; git commit -qam again; "+clean+"test ! -e other; test ! -e lib/deep/b.txt")
	d.must("merge", "alice")
	require.Equal(t, "lib/deep/b.txt\n", git(t, d.bare(), "show", "main:lib/deep/b.txt"))
	d.must("agents", "remove", "alice")
	require.Empty(t, glob(d.path("ws", ".polis", "filtered", "*")))
}

// The patterns and the configuration of a worktree are the agent's to write: no verb of polis follows them blindly, and none
// fails by them.
func TestASparseCheckoutThatAnAgentDamagesIsNotTrusted(t *testing.T) {
	d := sparseBed(t)
	// The view refuses links and pipes there; another process of the owner makes them.
	file := func(name string) string { return filepath.Join(d.bare(), "worktrees", name, "info", "sparse-checkout") }
	for i, c := range []struct {
		name, script string
		make         func(file string) error
	}{
		{name: "garbage", script: "head -c 300000 /dev/urandom > $F"},
		{name: "a huge file", script: "truncate -s 3G $F"},
		{name: "other patterns", script: "printf '/*\n!/lib/\n' > $F"},
		{name: "a directory", script: "rm $F; mkdir -p $F/x"},
		{name: "no file", script: "rm -r $(dirname $F)"},
		{name: "a huge configuration", script: "truncate -s 3G $(git rev-parse --git-dir)/config.worktree"},
		{name: "an odd configuration", script: "printf '[include]\n\tpath = /etc/passwd\n[core]\n\tsparseCheckout = maybe\n' > $(git rev-parse --git-dir)/config.worktree"},
		{name: "a link", script: "rm $F", make: func(file string) error { return os.Symlink("/etc/passwd", file) }},
		{name: "a pipe", script: "rm $F", make: func(file string) error { return syscall.Mkfifo(file, 0o666) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			alice, bob := fmt.Sprintf("alice%d", i), fmt.Sprintf("bob%d", i)
			d.worker(alice, "--sparse", "lib")
			d.sh(alice, "echo changed >> lib/a.txt; mkdir other; echo outside > other/new; F=$(git rev-parse --git-dir)/info/sparse-checkout; "+c.script)
			if c.make != nil {
				require.NoError(t, c.make(file(alice)))
			}
			require.Contains(t, d.must("agents", "diff", alice), "other/new")
			require.NotContains(t, d.must("agents", "diff", alice), "web/site")
			require.Equal(t, []string{"lib"}, d.sparseOf(alice))
			d.must("checkpoint", alice)
			d.must("agents", "fork", alice, bob)
			require.Equal(t, "changed\noutside\n", d.sh(bob, "tail -n1 lib/a.txt; cat other/new; test ! -e web"))
			d.refused(api.CodeUnsavedWork, "agents", "remove", alice)
			d.must("agents", "stop", alice)
			d.must("agents", "start", alice)
			d.must("agents", "remove", alice, "--force")
			d.must("restore", alice)
			require.Equal(t, "changed\noutside\nlib\n", d.sh(alice, "tail -n1 lib/a.txt; cat other/new; test ! -e web; git sparse-checkout list"))
			d.must("agents", "remove", alice, "--force")
			d.must("agents", "remove", bob, "--force")
		})
	}
}
