package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// strangersSee is what every user of the machine can do with what polis has made, and the only thing.
var strangersSee = map[string]string{
	"ws":         "list; ",        // the directory of a workspace that the user chose has the mode of its place: two names
	"ws/project": "read the link", // it leads to the project, whose mode is its owner's
	"ws2":        "list; ",        // as ws; its project is a clone
}

// privateConfig is the configuration of these tests, without the kind of worktrees.
const privateConfig = `[merge]
check = "test ! -e broken.txt"
[trash]
ttl = "24h"
[roles.recorded]
read = ["**"]
write = ["**"]
policy = "record"
`

// withUmask makes polisd, its shims and its git inherit a umask.
func withUmask(mask string) []string {
	return []string{"sh", "-c", "umask " + mask + `; exec "$@"`, "sh"}
}

// richSession makes everything that polis stores of a project: agents of each kind at work, tasks, commits, staged
// files, stashes, a checkpoint, a snapshot and its mount, a merge with a check, work in both kinds of trash, a clone.
func (d *daemon) richSession() (project string) {
	d.t.Helper()
	project = d.smallRepo()
	require.NoError(d.t, os.WriteFile(filepath.Join(project, "deps.lock"), []byte("left\n"), 0o644))
	require.NoError(d.t, os.WriteFile(filepath.Join(project, "ci.sh"), []byte(installer), 0o644))
	git(d.t, project, "add", "-A")
	git(d.t, project, "commit", "-qm", "Dependencies")
	d.seed(project, map[string]string{".env.log": "1\n"})
	d.must("up", "--repo", project, d.path("ws"))
	d.must("up", "--repo", "file://"+project) // below workspaces_dir
	d.must("up", "--repo", "file://"+project, d.path("ws2"))

	in := func(name string, flags ...string) { d.add(name, append([]string{"--workspace", "ws"}, flags...)...) }
	in("alice", "--port", "3000", "--", "sh", "-c", ident+"{prompt}")
	in("carol", "--read", "**", "--write", "**", "--deny", "secret/**")
	in("reader", "--read-only")
	in("learner", "--role", "recorded")
	d.add("cloned", "--workspace", "src")
	for _, name := range []string{"alice", "carol", "learner", "cloned"} {
		d.sh(name, "n="+name+"; git branch kept-$n; echo stashed > $n.txt; git add $n.txt; "+ident+`git stash -q
			echo staged > staged-$n.txt; git add staged-$n.txt; echo loose > loose-$n.txt; echo note > ~/note; echo t > /tmp/t; echo s > /var/tmp/s`)
	}
	d.sh("alice", "echo own >> .env.log")
	require.NotZero(d.t, d.exec("carol", "cat", "secret/key.txt").code)
	d.must("checkpoint", "alice")
	d.mountSnapshot(d.snapshot("alice").ID)
	d.mountSnapshot(d.snapshot("learner").ID, "--at", mkdir(d.t.(*testing.T), d.path("at")))
	d.sh("alice", "git rm -q --cached staged-alice.txt; rm staged-alice.txt loose-alice.txt")
	d.must("run", "--detach", "alice", "echo merged > merged.txt; git add -A; git commit -qm merged")
	require.Contains(d.t, d.settled("alice").Result, "merged as ")
	for _, name := range []string{"gone", "broken"} {
		in(name)
		d.sh(name, "n="+name+"; mkdir $n; cd $n; echo kept > new.txt; git add new.txt; "+ident+"git commit -qm kept; echo staged > staged.txt; git add staged.txt; echo loose > loose.txt")
	}
	d.must("discard", "--yes", "gone")
	d.must("agents", "stop", "broken")
	require.NoError(d.t, os.WriteFile(d.path("ws", ".polis", "worktrees", "broken", ".git"), []byte("gitdir: /etc\n"), 0o644))
	d.must("agents", "remove", "broken", "--force")
	d.must("lock", "--workspace", "ws", "--agent", "alice", "main.txt")
	return project
}

// TestAnotherUserSeesNothingOfAProject: whatever polis makes, another user of the machine gets EACCES for it. The
// umask of polisd does not matter, nor does the group of the project. Owner and agents see what they are to see.
func TestAnotherUserSeesNothingOfAProject(t *testing.T) {
	for _, c := range []struct{ name, umask, config string }{
		{"full worktrees, umask 0", "0", "[workspace]\nworktree = \"full\"\n"},
		{"shared worktrees, umask 077", "077", "[workspace]\nworktree = \"shared\"\nlayers = \"auto\"\n[workspace.setup]\nrun = \"sh ci.sh\"\ninputs = [\"deps.lock\"]\negress = \"none\"\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := startDaemon(t, options{config: privateConfig + c.config, wrap: withUmask(c.umask)})
			project := d.richSession()
			check := func() {
				d.requirePrivate(t, stranger, stranger, strangersSee)
				d.requirePrivate(t, colleague, owner, strangersSee)
				d.requirePrivateProcesses(t, stranger, stranger)
				d.requireUsable(t, project)
			}
			check()
			require.Error(t, d.signal(syscall.SIGKILL))
			d.start()
			check()
			d.stop()
			d.requirePrivate(t, stranger, stranger, strangersSee)
			d.start()
			check()
		})
	}
}

// requireUsable requires what the documentation promises to the owner of a project, and that agents work.
func (d *daemon) requireUsable(t *testing.T, project string) {
	t.Helper()
	polis := d.path("ws", ".polis")
	ownersGit := func(dir string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "HOME=/")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner, Gid: owner, Groups: []uint32{}}}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "git %s: %s", strings.Join(args, " "), out)
		return string(out)
	}
	require.Contains(t, ownersGit(filepath.Join(polis, "bare-repo.git"), "log", "--oneline", "agent/alice"), "merged")
	require.Contains(t, ownersGit(project, "fetch", filepath.Join(polis, "bare-repo.git"), "agent/alice"), "agent/alice")
	require.Contains(t, ownersGit(filepath.Join(polis, "internal.git"), "for-each-ref", "refs/polis/trash"), "refs/polis/trash/gone/")
	kept := glob(filepath.Join(polis, "trash", "broken.*", "worktree", "broken", "new.txt"))
	require.Len(t, kept, 1)
	text, err := readAs(t, owner, owner, kept[0])
	require.NoError(t, err)
	require.Equal(t, "kept\n", text)
	asUser(t, owner, owner, func() { _, err = os.ReadDir(filepath.Join(polis, "trash")) })
	require.NoError(t, err)
	require.Contains(t, ownersGit(project, "log", "--oneline", "-3"), "merged")
	// Its files are as its owner's git makes them, and not as private as what polis stores.
	fi, err := os.Stat(filepath.Join(project, "merged.txt"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o644), fi.Mode().Perm())
	for _, clone := range []string{d.path("state", "src"), d.path("ws2")} {
		_, err = readAs(t, owner, owner, filepath.Join(clone, "project", "main.txt"))
		require.NoError(t, err, "the owner's clone")
	}
	text, err = readAs(t, owner, owner, filepath.Join(polis, "homes", "alice", "note"))
	require.NoError(t, err)
	require.Equal(t, "note\n", text)
	// polis is root's, so that nobody exchanges what is in it. What runs programs, or is of agents alone, is closed.
	asUser(t, owner, owner, func() { err = os.Mkdir(filepath.Join(polis, "new"), 0o700) })
	require.ErrorIs(t, err, os.ErrPermission)
	for _, name := range []string{"worktrees", "logs/alice", "snapshots", "bases", "layers"} {
		if _, err := os.Lstat(filepath.Join(polis, name)); err != nil {
			continue // bases and layers are of shared worktrees
		}
		asUser(t, owner, owner, func() { _, err = os.ReadDir(filepath.Join(polis, name)) })
		require.ErrorIs(t, err, os.ErrPermission, name)
	}

	for _, name := range []string{"alice", "carol", "learner", "cloned"} {
		require.Equal(t, "0022\n", d.sh(name, "umask"))
		require.Equal(t, "stashed\n", d.sh(name, "git stash show -p | sed -n 's/^+//p' | tail -n 1"), name)
		d.sh(name, "git log --oneline -1; git status --porcelain; cat ~/note /run/polis/policy; echo more >> more-"+name+"; git add more-"+name+"; "+ident+"git commit -qm more")
	}
	require.Contains(t, d.sh("reader", "cat main.txt"), "three")
	require.NotZero(t, d.exec("carol", "cat", "secret/key.txt").code)
}

// secondWall is what others could reach if .polis and the directories of agents below run_dir were open, with the
// reason. On a file system without access control lists the members of the owner's group can reach as much.
var secondWall = map[string]string{
	`(ws|state/src)/\.polis`: "opened by the test", `state/src`: "opened by the test", `run/agents/[a-z]+`: "opened by the test",
	`(ws|state/src)/\.polis/(homes|private|scratch|trash|published)`: "names alone: what is in them is the owner's or root's",
	`(ws|state/src)/\.polis/filtered(/.*)?`:                          "agents read it in their sandboxes",
	`run/agents/[a-z]+/(inside|rootfs|snapshots)(/.*)?`:              "agents read it in their sandboxes: their rules, the programs of polis",
	`run/agents/[a-z]+/resolv\.conf`:                                 "agents read it in their sandboxes",
}

// TestBehindTheClosedDirectories: what is in .polis has modes of its own.
func TestBehindTheClosedDirectories(t *testing.T) {
	d := startDaemon(t, options{config: privateConfig, wrap: withUmask("0")})
	d.richSession()
	for _, dir := range append(glob(d.path("run", "agents", "*")), d.path("ws", ".polis"), d.path("state", "src"), d.path("state", "src", ".polis")) {
		_ = unix.Removexattr(dir, "system.posix_acl_access")
		require.NoError(t, os.Chmod(dir, 0o755))
	}
	paths, allowed := made(t, d.madeDirs()...), map[string]string{}
	asUser(t, stranger, stranger, func() {
		for _, path := range paths {
			rel := strings.TrimPrefix(path, d.dir+"/")
			for pattern := range secondWall {
				if got := opened(path); got != "" && regexp.MustCompile("^"+pattern+"$").MatchString(rel) {
					require.NotContains(t, got, "write", rel)
					require.NotContains(t, got, "create", rel)
					allowed[rel] = got
				}
			}
		}
	})
	for rel, got := range strangersSee {
		allowed[rel] = got
	}
	d.requirePrivate(t, stranger, stranger, allowed)
}

// TestAnOldInstallationIsMadePrivateAtStart, also while its agents are at work.
func TestAnOldInstallationIsMadePrivateAtStart(t *testing.T) {
	d := startDaemon(t, options{config: privateConfig})
	project := d.richSession()
	open := func() {
		require.NoError(t, os.MkdirAll(d.path("run", "agents"), 0o755)) // a stop removes it
		for _, dir := range append(glob(d.path("ws", ".polis", "private", "*")), d.path("ws", ".polis"), d.path("ws", ".polis", "bare-repo.git"), d.path("ws", ".polis", "private"),
			d.path("ws", ".polis", "worktrees"), d.path("ws", ".polis", "trash"), d.path("state", "src"), d.path("state", "src", "project"), d.path("state", "src", ".polis"), d.path("run", "agents")) {
			if err := unix.Removexattr(dir, "system.posix_acl_access"); err != nil {
				require.ErrorIs(t, err, unix.ENODATA, dir)
			}
			require.NoError(t, os.Chmod(dir, 0o755))
		}
		text, err := readAs(t, stranger, stranger, d.path("ws", ".polis", "bare-repo.git", "HEAD"))
		require.NoError(t, err)
		require.Contains(t, text, "ref: ")
	}
	require.Error(t, d.signal(syscall.SIGKILL))
	open()
	d.start()
	d.requirePrivate(t, stranger, stranger, strangersSee)
	d.requireUsable(t, project)
	d.stop()
	open()
	d.start()
	d.requirePrivate(t, stranger, stranger, strangersSee)
	d.requirePrivate(t, colleague, owner, strangersSee)
	d.requireUsable(t, project)
}

// TestAWorkspaceInTheOwnersHome works, though nobody but its owner can enter the home.
func TestAWorkspaceInTheOwnersHome(t *testing.T) {
	d := startDaemon(t, options{config: "[workspace]\nin_user_directories = true\n"})
	home := d.path("home")
	require.NoError(t, os.Mkdir(home, 0o700))
	repo := d.smallRepo()
	require.NoError(t, os.Rename(repo, filepath.Join(home, "src")))
	require.NoError(t, os.Mkdir(filepath.Join(home, "mine"), 0o700))
	d.giveAway(home)
	for i, ws := range []string{"ws", "mine"} { // one that polis makes, and one of the owner's
		root := filepath.Join(home, ws)
		d.must("up", "--repo", filepath.Join(home, "src"), root)
		name := []string{"alice", "bob"}[i]
		d.add(name, "--workspace", ws)
		for range 2 {
			d.sh(name, "echo more >> "+name+"; git add -A; "+ident+"git commit -qm 'by "+name+"'")
			bare := filepath.Join(root, ".polis", "bare-repo.git")
			_, err := readAs(t, owner, owner, filepath.Join(bare, "HEAD"))
			require.NoError(t, err)
			_, err = readAs(t, stranger, stranger, filepath.Join(bare, "HEAD"))
			require.ErrorIs(t, err, os.ErrPermission)
			require.NoError(t, os.Chmod(home, 0o755), "the owner lets others in")
			_, err = readAs(t, stranger, stranger, filepath.Join(bare, "HEAD"))
			require.ErrorIs(t, err, os.ErrPermission)
			require.NoError(t, os.Chmod(home, 0o700))
			d.stop()
			d.start()
		}
		d.must("merge", name)
		require.Equal(t, "more\nmore\n", readFile(filepath.Join(home, "src", name)))
	}
}
