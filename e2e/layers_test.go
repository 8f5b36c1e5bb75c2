package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
)

// layered starts a polisd whose agents share base trees.
func layered(t *testing.T, o options) *daemon {
	o.config += "\n[workspace]\nworktree = \"shared\"\n"
	d := startDaemon(t, o)
	d.up()
	return d
}

// bases lists the directories of base trees, unfinished ones too.
func (d *daemon) bases() []string { return glob(d.path("ws", ".polis", "bases", "*")) }

// overlays counts the mounts of worktrees below the views.
func (d *daemon) overlays() int {
	n := 0
	for _, m := range d.mounts() {
		if strings.HasSuffix(m, "/merged") {
			n++
		}
	}
	return n
}

// files is where the files of a stopped agent can be changed below its view.
func (d *daemon) files(agent string) string {
	merged := d.path("ws", ".polis", "layers", agent, "merged")
	if _, err := os.Stat(d.path("ws", ".polis", "layers", agent, "above")); err != nil && slices.Contains(d.mounts(), merged) {
		return merged
	}
	return d.path("ws", ".polis", "worktrees", agent)
}

// own lists what an agent has changed: the names in its upper layer, but .git. The agent must be
// stopped.
func (d *daemon) own(agent string) []string {
	d.t.Helper()
	var names []string
	top := d.path("ws", ".polis", "worktrees", agent)
	require.NoError(d.t, filepath.WalkDir(top, func(path string, e os.DirEntry, err error) error {
		if rel := strings.TrimPrefix(path, top+"/"); err == nil && !e.IsDir() && rel != ".git" {
			names = append(names, rel)
		}
		return err
	}))
	return names
}

// Two agents on one base tree do what agents do; neither the base nor the other agent sees a change
// before it is merged.
func TestAgentsShareABaseTree(t *testing.T) {
	d := layered(t, options{})
	d.add("ann")
	d.add("bob")
	require.Len(t, d.bases(), 1, "one commit, one base tree")
	require.Equal(t, 2, d.overlays())
	tree := filepath.Join(d.bases()[0], "tree")

	d.sh("ann", `set -e
		test -z "$(git status --porcelain)"
		echo changed >> main.txt; chmod +x src/a.txt; rm src/b.txt; mv src/deep moved; mkdir -p new; echo n > new/file
		ln main.txt linked; ln -s main.txt symbolic
		test ! -e src/b.txt; test "$(cat moved/er/c.txt)" = c
		! mknod whiteout c 0 0 2>/dev/null
		git add -A; git -c user.name=a -c user.email=a@b commit -qm work
		echo more >> README.md; echo u > untracked; rm docs/guide.md`)
	require.Equal(t, "one\ntwo\nthree\n", readFile(filepath.Join(tree, "main.txt")), "the base never changes")
	require.Equal(t, "b\n", readFile(filepath.Join(tree, "src/b.txt")))
	d.sh("bob", `set -e; test -z "$(git status --porcelain)"; test "$(cat src/b.txt)" = b; ! grep changed main.txt; test "$(stat -c %a src/a.txt)" = 644`)
	require.Contains(t, git(t, d.path("ws", ".polis", "bare-repo.git"), "worktree", "list"), "worktrees/ann")
	a, ok := d.agent("ann")
	require.True(t, ok)
	require.NotEmpty(t, a.Branch)

	// What a stopped agent left is read, diffed and saved below the view.
	d.must("agents", "stop", "ann")
	require.Contains(t, d.must("agents", "diff", "ann"), "+more")
	require.NotContains(t, d.own("ann"), "src/deep/er/c.txt")
	require.Contains(t, d.own("ann"), "untracked")
	require.Contains(t, d.own("ann"), "docs/guide.md", "a removed file is a whiteout")
	d.must("agents", "start", "ann")
	require.Equal(t, " M README.md\n D docs/guide.md\n?? untracked\n", d.sh("ann", "git status --porcelain"))
	d.sh("ann", "git checkout -q README.md docs/guide.md; rm untracked; test -z \"$(git status --porcelain)\"; test \"$(cat docs/guide.md)\" = guide")
	d.must("merge", "ann")
	require.FileExists(t, filepath.Join(d.path("src"), "moved/er/c.txt"))
	d.sh("bob", "echo mine > src/b.txt; echo t > kept-aside")

	// Removing saves everything in the trash, and restoring brings it back, on the target's new base.
	d.must("agents", "remove", "bob", "--force")
	require.Equal(t, 1, d.overlays())
	d.must("restore", "bob")
	require.Equal(t, " M src/b.txt\n?? kept-aside\n", d.sh("bob", "git status --porcelain"))
	require.Equal(t, "mine\n", d.sh("bob", "cat src/b.txt"))

	// A third agent starts from the merged files: another base tree. Maintenance removes the ones
	// that nothing uses.
	d.add("cat")
	require.Len(t, d.bases(), 2)
	d.must("agents", "remove", "cat", "--force")
	d.must("maintenance", "--now")
	require.Equal(t, []string{filepath.Dir(tree)}, d.bases())
	d.must("agents", "remove", "ann", "--force")
	d.must("agents", "remove", "bob", "--force")
	d.must("maintenance", "--now")
	require.Empty(t, d.bases())
	require.Empty(t, glob(d.path("ws", ".polis", "layers", "*")))
	require.Zero(t, d.overlays())
}

// survivesCrashes has ann change something, and polisd, its shim and both die. The changes are there
// after each, and look is called. At the end polisd is stopped.
func (d *daemon) survivesCrashes(look func(after string)) (work func(after string)) {
	t := d.t
	t.Helper()
	d.add("ann")
	d.sh("ann", "echo one > own; echo changed > main.txt; rm src/b.txt")
	work = func(after string) {
		t.Helper()
		d.eventually("ann to run "+after, func() bool { return d.exec("ann", "true").code == 0 })
		require.Equal(t, " M main.txt\n D src/b.txt\n?? own\n", d.sh("ann", "git status --porcelain"), after)
		look(after)
	}
	require.Error(t, d.signal(syscall.SIGKILL))
	d.start()
	work("after polisd was killed")
	require.Contains(t, d.must("agents", "diff", "ann"), "+changed")

	require.NoError(t, syscall.Kill(d.shim("ann"), syscall.SIGKILL))
	d.eventually("the shim's death to be seen", func() bool { a, _ := d.agent("ann"); return a.Status == api.StatusError })
	d.must("agents", "start", "ann")
	work("after the shim was killed")

	require.Error(t, d.signal(syscall.SIGKILL))
	require.NoError(t, syscall.Kill(d.shim("ann"), syscall.SIGKILL))
	d.start()
	d.eventually("a start after both died", func() bool { return d.ctl("agents", "start", "ann").code == 0 })
	work("after both were killed")

	d.stop()
	require.Empty(t, d.mounts(), "a stop leaves no mount")
	require.ElementsMatch(t, []string{"main.txt", "own", "src/b.txt"}, d.own("ann"))
	return work
}

// Neither polisd nor a shim that is killed loses what an agent changed, and a stop leaves no mount.
func TestLayersSurviveCrashes(t *testing.T) {
	d := layered(t, options{})
	work := d.survivesCrashes(func(string) {})

	// The option decides about new agents only; a worktree keeps its kind.
	d.write("polisd.toml", strings.Replace(readFile(d.path("polisd.toml")), `worktree = "shared"`, `worktree = "full"`, 1))
	d.start()
	d.eventually("a start after a stop", func() bool { return d.ctl("agents", "start", "ann").code == 0 })
	work("after a stop")
	d.add("new")
	require.Equal(t, "one\ntwo\nthree\n", readFile(d.path("ws", ".polis", "worktrees", "new", "main.txt")))
	require.NoFileExists(t, d.path("ws", ".polis", "layers", "new", "base"))
}

// The project's ignored files show above a base tree, and the first change of one makes it the
// agent's own, as in a full checkout.
func TestSharedFilesOfTheProjectAboveABaseTree(t *testing.T) {
	d := startDaemon(t, options{config: "[workspace]\nworktree = \"shared\"\n"})
	repo := d.smallRepo()
	d.seed(repo, map[string]string{".gitignore": "node_modules/\n.env*\n"})
	git(t, repo, "add", "-A")
	git(t, repo, "commit", "-qm", "What is ignored")
	project := map[string]string{".env": "SECRET=1\n", ".env.local": "LOCAL=1\n", "node_modules/left/i.js": "7\n", "node_modules/left/b.js": "b\n"}
	d.seed(repo, project)
	require.NoError(t, os.Symlink("i.js", filepath.Join(repo, "node_modules/left/link.js")))
	d.giveAway(repo)
	d.must("up", "--repo", repo, d.path("ws"))
	d.add("ann")
	d.add("bob")
	require.Equal(t, 2, d.overlays())
	fd, err := unix.Open(d.path("ws", ".polis", "layers", "ann", "merged"), unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("no O_TMPFILE here: overlayfs has it from Linux 6.10")
	}
	require.NoError(t, err)
	require.NoError(t, unix.Close(fd))
	d.sh("ann", "set -e; echo SECRET=ann > .env; echo more >> node_modules/left/i.js; mv .env.local .env.mine; mv node_modules/left/link.js node_modules/left/moved.js; rm node_modules/left/b.js")
	own := func(after string) {
		t.Helper()
		require.Equal(t, "SECRET=ann\nLOCAL=1\n7\nmore\n7\nmore\n", d.sh("ann", "cat .env .env.mine node_modules/left/i.js node_modules/left/moved.js"), after)
		require.Equal(t, "i.js\nmoved.js\n", d.sh("ann", "ls node_modules/left"), after)
		require.Empty(t, d.sh("ann", "git status --porcelain"), after)
	}
	own("after the first change")
	require.Equal(t, "SECRET=1\nLOCAL=1\n7\nb\n7\n", d.sh("bob", "cat .env .env.local node_modules/left/i.js node_modules/left/b.js node_modules/left/link.js"))
	for name, text := range project {
		require.Equal(t, text, readFile(filepath.Join(repo, name)), name)
	}
	d.must("agents", "stop", "ann")
	require.NoFileExists(t, filepath.Join(d.bases()[0], "tree", ".env"))
	require.Contains(t, d.own("ann"), "node_modules/left/i.js")
	d.must("agents", "start", "ann")
	own("after a restart")
}

// The limits count what an agent has changed, not the files that it shares; df and du in it show the
// disk and the tree.
func TestDiskLimitsCountChangesAboveABaseTree(t *testing.T) {
	for _, layers := range []string{"view", "auto"} {
		t.Run(layers, func(t *testing.T) { countsChanges(t, layers) })
	}
}

func countsChanges(t *testing.T, layers string) {
	d := startDaemon(t, options{config: "[workspace]\nworktree = \"shared\"\nlayers = \"" + layers + "\"\n"})
	repo := d.smallRepo()
	files := map[string]string{}
	for i := range 600 {
		files["many/f"+strconv.Itoa(i)] = "x\n"
	}
	files["big.bin"] = strings.Repeat("0123456789abcdef", 3<<16) // 3 MiB
	d.seed(repo, files)
	for i := range 12 {
		d.seed(repo, map[string]string{"big/" + strconv.Itoa(i): strings.Repeat("0123456789abcdef", 3<<16)})
	}
	git(t, repo, "add", "-A")
	git(t, repo, "commit", "-qm", "Many files")
	d.giveAway(repo)
	d.must("up", "--repo", repo, d.path("ws"))
	d.add("ann", "--disk", "24", "--files", "400")
	d.add("bob", "--files", "400")
	d.sh("ann", "echo x > small; for i in $(seq 300); do : < many/f$i; done; cat big/* > /dev/null")
	require.Equal(t, "600\n", d.sh("ann", "ls many | wc -l"))
	require.Greater(t, atoi(t, d.sh("ann", "du -sk --apparent-size . | cut -f1")), 36*1024, "du shows the tree")
	require.Equal(t, d.sh("ann", "df --output=size . | tail -1"), d.sh("bob", "df --output=size . | tail -1"))

	// A copy of a file of the base counts. What is refused adds nothing.
	d.sh("ann", "for i in 0 1 2 3 4 5 6 7 8; do echo more >> big/$i; done")
	d.eventually("it is measured", func() bool { return d.exec("ann", "sh", "-c", "echo x > more").code != 0 })
	require.Contains(t, d.exec("ann", "env", "LC_ALL=C", "sh", "-c", "echo x > more2").stderr, "quota exceeded")
	require.Contains(t, d.must("agents", "why", "ann"), string(api.CodeQuota))
	d.sh("ann", "rm big/0 big/1 big/2 big/3 big/4 big/5 big/6 big/7 big/8")
	d.eventually("it is measured again", func() bool { return d.exec("ann", "sh", "-c", "echo x > more").code == 0 })

	// So does what an agent makes, but not what it has from the base.
	r := d.exec("bob", "env", "LC_ALL=C", "sh", "-c", "mkdir new && i=0; while echo x > new/$i; do i=$((i+1)); done 2>/tmp/err; cat /tmp/err >&2; echo $i")
	require.Contains(t, r.stderr, "quota exceeded")
	made := atoi(t, r.stdout)
	require.Less(t, made, 400)
	require.Greater(t, made, 200)
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(s))
	require.NoError(t, err)
	return n
}
