package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
)

// above starts a polisd whose agents have the overlay above the view if their rules allow it.
func above(t *testing.T, o options) *daemon {
	o.config += "\n[workspace]\nworktree = \"shared\"\nlayers = \"auto\"\n"
	d := startDaemon(t, o)
	d.up()
	return d
}

// topMount is the type of the file system that an agent's worktree is on, on the host.
func (d *daemon) topMount(agent string) string {
	d.t.Helper()
	typ := ""
	for _, line := range strings.Split(readFile("/proc/self/mounts"), "\n") {
		if f := strings.Fields(line); len(f) > 2 && f[1] == d.path("ws", ".polis", "worktrees", agent) {
			typ = f[2]
		}
	}
	return typ
}

// viewMount is where an agent's view is mounted on the host.
func (d *daemon) viewMount(agent string) string {
	d.t.Helper()
	if d.topMount(agent) == "overlay" {
		return d.path("run", "agents", agent, "upper", "view")
	}
	return d.path("ws", ".polis", "worktrees", agent)
}

// restorable calls do while a snapshot of the agent can be restored. With the overlay above the view, a
// restore "is refused while the agent runs (BAD_STATE)" (docs/view.md).
func (d *daemon) restorable(agent, id string, do func()) {
	d.t.Helper()
	if d.topMount(agent) == "overlay" {
		d.hinted("polisctl agents stop %s, then restore, then polisctl agents start %s", "snapshot", "restore", id)
		d.refused(api.CodeBadState, "snapshot", "restore", id)
	}
	d.uncovered(agent, do)
}

// uncovered calls do while no overlay is above the agent's view: the agent is stopped if one is.
func (d *daemon) uncovered(agent string, do func()) {
	d.t.Helper()
	if d.topMount(agent) != "overlay" {
		do()
		return
	}
	d.must("agents", "stop", agent)
	do()
	d.must("agents", "start", "--program", agent)
}

// Two agents with overlays above their views do what agents do: leases, rules, git, and what the
// daemon reads of them.
func TestAnOverlayAboveTheView(t *testing.T) {
	d := above(t, options{})
	d.add("ann")
	d.add("bob", "--write", "src/**", "--write", "new/**")
	d.add("cat", "--deny", "docs/**")
	require.Equal(t, "overlay", d.topMount("ann"))
	require.Equal(t, "overlay", d.topMount("bob"), "rules for writing withhold no reading")
	require.Equal(t, "fuse.polis", d.topMount("cat"), "the view must see every reading")
	require.NotZero(t, d.exec("cat", "cat", "docs/guide.md").code)
	tree := filepath.Join(d.bases()[0], "tree")

	t.Run("work", func(t *testing.T) {
		d.sh("ann", `set -e
			test -z "$(git status --porcelain)"
			echo changed >> main.txt; chmod +x src/a.txt; rm src/b.txt; mv src/deep moved; mkdir -p new; echo n > new/file
			ln main.txt linked; ln -s main.txt symbolic; sed -i s/guide/GUIDE/ docs/guide.md
			test ! -e src/b.txt; test "$(cat moved/er/c.txt)" = c
			! mknod whiteout c 0 0 2>/dev/null
			git add -A; git -c user.name=a -c user.email=a@b commit -qm work
			git checkout -q HEAD~1; test "$(cat src/b.txt)" = b; test ! -e moved; git checkout -q -; test ! -e src/b.txt
			echo more >> README.md; echo u > untracked; rm docs/guide.md`)
		require.Equal(t, "one\ntwo\nthree\n", readFile(filepath.Join(tree, "main.txt")), "the base never changes")
		require.Equal(t, "b\n", readFile(filepath.Join(tree, "src/b.txt")))
	})
	t.Run("the daemon sees it", func(t *testing.T) {
		require.Contains(t, d.must("agents", "diff", "ann"), "+more")
		d.sh("ann", "echo yet more >> README.md")
		require.Contains(t, d.must("agents", "diff", "ann"), "+yet more", "what was mounted for the first diff shows nothing later")
	})
	t.Run("leases", func(t *testing.T) {
		require.Contains(t, d.must("locks"), "README.md")
		require.NotZero(t, d.exec("bob", "sh", "-c", "echo x >> src/b.txt").code, "ann removed it")
		require.Contains(t, d.sh("bob", "cat /run/polis/why"), "src/b.txt")
		require.NotZero(t, d.exec("bob", "rm", "src/b.txt").code)
		require.Equal(t, "b\n", d.sh("bob", "cat src/b.txt"))
	})
	t.Run("rules", func(t *testing.T) {
		require.NotZero(t, d.exec("bob", "sh", "-c", "echo x >> README.md").code)
		require.Contains(t, d.sh("bob", "cat /run/polis/why"), "README.md")
		require.NotZero(t, d.exec("bob", "mv", "docs", "new").code)
		require.NotZero(t, d.exec("bob", "rm", "-r", "docs").code)
		d.sh("bob", "echo x > new-file || true; mkdir new; echo x > new/mine; test -e docs/guide.md; git status --porcelain | grep -qx '?? new/'")
	})
	t.Run("other rules", func(t *testing.T) {
		out := d.ctl("agents", "set", "bob", "--hide", "docs/**")
		require.Zero(t, out.code, out.stderr)
		require.Contains(t, out.stdout+out.stderr, "base tree", "says from when the rules apply")
		d.must("agents", "stop", "bob")
		d.must("agents", "start", "bob")
		require.Equal(t, "fuse.polis", d.topMount("bob"))
		require.NotZero(t, d.exec("bob", "cat", "docs/guide.md").code)
		require.Equal(t, "x\n", d.sh("bob", "cat new/mine"), "the changes are those of before")
	})
	t.Run("stop and start", func(t *testing.T) {
		d.must("agents", "stop", "ann")
		require.Contains(t, d.must("agents", "diff", "ann"), "+yet more")
		d.must("agents", "start", "ann")
		require.Equal(t, "overlay", d.topMount("ann"))
		require.Equal(t, " M README.md\n D docs/guide.md\n?? untracked\n", d.sh("ann", "git status --porcelain"))
	})
	t.Run("snapshots", func(t *testing.T) {
		s := d.snapshot("ann")
		d.sh("ann", "echo later > main.txt; echo later > snapped")
		d.restorable("ann", s.ID, func() { d.must("snapshot", "restore", s.ID) })
		require.Equal(t, "overlay", d.topMount("ann"))
		require.Equal(t, " M README.md\n D docs/guide.md\n?? untracked\n", d.sh("ann", "git status --porcelain"))
	})
	t.Run("merge, remove and restore", func(t *testing.T) {
		d.sh("ann", "git checkout -q README.md docs/guide.md; rm untracked; test -z \"$(git status --porcelain)\"; echo mine > kept")
		d.must("agents", "remove", "ann", "--force")
		d.must("restore", "ann")
		require.Equal(t, "overlay", d.topMount("ann"))
		require.Equal(t, "?? kept\n", d.sh("ann", "git status --porcelain"))
		d.sh("ann", "rm kept")
		d.must("merge", "ann")
		require.FileExists(t, filepath.Join(d.path("src"), "moved/er/c.txt"))
	})
}

// An open for writing that the kernel reports as interrupted by a rename is repeated: git checkout
// removes and creates files while other programs read them.
func TestCheckoutsBesideReadersAboveTheView(t *testing.T) {
	d := startDaemon(t, options{config: "\n[workspace]\nworktree = \"shared\"\nlayers = \"auto\"\n"})
	repo := d.smallRepo()
	files := map[string]string{}
	for i := range 300 {
		files[fmt.Sprintf("m/f%d.txt", i)] = "text\n"
	}
	d.seed(repo, files)
	git(t, repo, "add", "-A")
	git(t, repo, "commit", "-qm", "Many files")
	d.giveAway(repo)
	d.must("up", "--repo", repo, d.path("ws"))
	d.add("ann")
	d.sh("ann", `(while :; do find . -type f | xargs stat || :; done) >/dev/null 2>&1 & p=$!
		(while :; do find . -type f | xargs cat || :; done) >/dev/null 2>&1 & q=$!
		for i in $(seq 8); do
			for f in m/f1*; do echo x >> $f; done; rm m/f2*
			git checkout -q m || { echo "checkout $i"; bad=1; }
			s=$(git status --porcelain); test -z "$s" || { echo "status $i: $s"; bad=1; }
		done
		kill $p $q || :; test -z "$bad"`)
}

// An agent whose view dies below its overlay ends with it, and continues when it is started again.
func TestAViewThatDiesBelowItsOverlay(t *testing.T) {
	d := above(t, options{})
	d.add("ann")
	d.sh("ann", "echo mine > main.txt; setsid sh -c 'while :; do cat main.txt; done' >/dev/null 2>&1 </dev/null &")
	// umount -f aborts a FUSE connection (kernel: Documentation/filesystems/fuse); it stays mounted, dead.
	err := unix.Unmount(d.viewMount("ann"), unix.MNT_FORCE)
	d.eventually("the agent is in Error, with the reason", func() bool {
		a, _ := d.agent("ann")
		return a.Status == api.StatusError && strings.Contains(a.StatusReason, "view has ended")
	})
	require.Contains(t, d.must("agents", "diff", "ann"), "+mine", "%v", err)
	require.Empty(t, d.topMount("ann"), "the overlay ended with the view")
	d.must("agents", "start", "ann")
	require.Equal(t, "mine\n", d.sh("ann", "cat main.txt"))
	require.Equal(t, "overlay", d.topMount("ann"))
}

// A shim or a polisd that is killed loses nothing of an agent whose overlay is above its view.
func TestAnOverlayAboveTheViewSurvivesCrashes(t *testing.T) {
	d := above(t, options{})
	d.survivesCrashes(func(after string) { require.Equal(t, "overlay", d.topMount("ann"), after) })

	// With the other order the same changes are there, without a conversion.
	d.write("polisd.toml", strings.Replace(readFile(d.path("polisd.toml")), `layers = "auto"`, `layers = "view"`, 1))
	d.start()
	d.eventually("a start after a stop", func() bool { return d.ctl("agents", "start", "ann").code == 0 })
	require.Equal(t, "fuse.polis", d.topMount("ann"))
	require.Equal(t, " M main.txt\n D src/b.txt\n?? own\n", d.sh("ann", "git status --porcelain"))
	_, err := os.Lstat(d.path("ws", ".polis", "layers", "ann", "above"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A task of an agent whose files change only above its view begins where the target is: git in the
// agent moves the branch, by the agent's rules. What they forbid leaves nothing half done.
func TestATaskBeginsWhereTheTargetIsAboveTheView(t *testing.T) {
	d := above(t, options{config: "[locks]\nhold = \"close\"\n"})
	d.worker("alice")
	d.worker("bob")
	d.worker("dora", "--write", "src/**")
	require.Equal(t, "overlay", d.topMount("bob"))
	require.Equal(t, "overlay", d.topMount("dora"))
	merged := func(name, script string) {
		t.Helper()
		d.must("agents", "run", name, ident+script)
		got := d.settled(name)
		require.Equal(t, api.OutcomeMerged, got.Outcome, "%s: %+v", name, got)
	}
	merged("alice", "echo one > README.md; mkdir new; echo x > new/file; echo a >> src/a.txt; git add -A; git commit -qm one")
	merged("bob", "grep -q one README.md; grep -q x new/file; echo two > two.txt; git add -A; git commit -qm two")
	merged("alice", "grep -q two two.txt; git rm -q new/file; echo three >> README.md; git commit -qam three")
	merged("bob", "test ! -e new; grep -q three README.md; echo four > four.txt; git add -A; git commit -qm four")
	require.Empty(t, d.sh("bob", "git status --porcelain"))

	head := d.sh("dora", "git rev-parse HEAD")
	d.must("agents", "run", "dora", "test ! -e two.txt; ! grep -q one README.md; test -z \"$(git status --porcelain)\"")
	require.Equal(t, "nothing to merge", d.settled("dora").Result)
	require.Equal(t, head, d.sh("dora", "git rev-parse HEAD"))
	require.Empty(t, d.sh("dora", "git status --porcelain --ignored"))
	// Work of its own stays where it is.
	merged("alice", "echo five > five.txt; git add -A; git commit -qm five")
	d.sh("bob", "echo own > own.txt")
	head = d.sh("bob", "git rev-parse HEAD")
	d.must("agents", "run", "bob", "test ! -e five.txt")
	require.Equal(t, "uncommitted: 1 file", d.settled("bob").Result)
	require.Equal(t, head, d.sh("bob", "git rev-parse HEAD"))
}
