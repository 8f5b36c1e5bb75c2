package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// plain puts a directory without git under polis, owned by uid.
func (d *daemon) plain(uid int) (dir string, resp api.UpResponse) {
	d.t.Helper()
	dir = d.path("plain")
	require.NoError(d.t, os.MkdirAll(filepath.Join(dir, "sub"), 0o755))
	for name, mode := range map[string]os.FileMode{"file.txt": 0o644, "private.txt": 0o600, "sub/run.sh": 0o755} {
		require.NoError(d.t, os.WriteFile(filepath.Join(dir, name), []byte("x\n"), mode))
	}
	require.NoError(d.t, filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		require.NoError(d.t, err)
		return os.Lchown(p, uid, uid)
	}))
	require.NoError(d.t, json.Unmarshal([]byte(d.must("--json", "up", "--repo", dir, d.path("ws"))), &resp))
	return dir, resp
}

// TestNotAGitRepository is the first edge case of seed 001: agents work in the project itself,
// separated by rules and locks, for any owner. Their new files belong to the owner of the project.
func TestNotAGitRepository(t *testing.T) {
	for name, uid := range map[string]int{"of root": 0, "of the agents' user": owner, "of another user": 4321} {
		t.Run(name, func(t *testing.T) {
			d := startDaemon(t, options{})
			dir, up := d.plain(uid)
			if uid == 0 {
				require.Len(t, up.Warnings, 1)
				require.Contains(t, up.Warnings[0], "files that they create belong to root")
			} else {
				require.Empty(t, up.Warnings)
			}
			d.worker("alice")
			d.add("bob", "--read", "**", "--write", "sub/**")
			d.must("agents", "run", "alice", "test -O private.txt; cat private.txt >> file.txt; echo done > task.txt; mkdir made; echo deep > made/deep.txt; mv sub/run.sh made/; pwd; id -u > who.txt")
			d.eventually("the task is done", func() bool { a, _ := d.agent("alice"); return a.Status == api.StatusIdle })
			a, _ := d.agent("alice")
			require.Empty(t, a.StatusReason, d.must("agents", "watch", "alice"))
			require.Contains(t, d.must("agents", "watch", "alice"), dir)
			require.Empty(t, a.Branch)
			require.Empty(t, a.MergeStatus)
			require.Equal(t, "x\nx\n", readFile(filepath.Join(dir, "file.txt")))
			require.NotEqual(t, "0\n", readFile(filepath.Join(dir, "who.txt")), "agents are never root")
			require.NoError(t, filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
				require.NoError(t, err)
				fi, err := os.Lstat(p)
				require.NoError(t, err)
				require.Equal(t, uint32(uid), owns(fi), p)
				return nil
			}))

			require.Equal(t, "deep\n", d.sh("bob", "cat made/deep.txt"), "all see the same files")
			r := d.exec("bob", "sh", "-c", "echo bob > task.txt")
			require.NotZero(t, r.code)
			require.Contains(t, r.stderr, "denied", "rules hold")
			d.sh("alice", "echo alice > sub/both.txt")
			r = d.exec("bob", "sh", "-c", "echo bob > sub/both.txt")
			require.NotZero(t, r.code)
			require.Contains(t, r.stderr, "busy", "locks hold")

			// No file that root could be made to execute with more rights.
			d.exec("alice", "sh", "-c", "cp /bin/true suid; chmod 6755 suid; install -m 4755 /bin/true suid2; python3 -c 'import os; os.close(os.open(\"suid3\", os.O_CREAT|os.O_WRONLY, 0o4755))'; mknod dev c 1 3")
			require.FileExists(t, filepath.Join(dir, "suid"))
			for _, f := range glob(filepath.Join(dir, "suid*")) {
				fi, err := os.Stat(f)
				require.NoError(t, err)
				if owns(fi) == 0 {
					require.Zero(t, fi.Mode()&(os.ModeSetuid|os.ModeSetgid), f)
				}
			}
			require.NoFileExists(t, filepath.Join(dir, "dev"))
			require.NotZero(t, d.exec("alice", "cat", "../outside").code)

			// A restart of polisd and of the agent changes nothing of it.
			require.Error(t, d.signal(syscall.SIGKILL))
			d.start()
			d.sh("alice", "echo again >> task.txt")
			d.must("agents", "stop", "alice")
			d.must("agents", "start", "alice")
			d.sh("alice", "echo again >> task.txt")
			require.Equal(t, "done\nagain\nagain\n", readFile(filepath.Join(dir, "task.txt")))
			d.must("agents", "remove", "alice", "bob")
			require.Equal(t, "done\nagain\nagain\n", readFile(filepath.Join(dir, "task.txt")))
			require.NoDirExists(t, filepath.Join(dir, ".git"))
			require.NoDirExists(t, filepath.Join(dir, ".polis"))
		})
	}
}

// TestVerbsThatNeedGitReportIt: every verb about branches is refused with one code and a hint, and
// changes nothing.
func TestVerbsThatNeedGitReportIt(t *testing.T) {
	d := startDaemon(t, options{})
	dir, _ := d.plain(owner)
	d.add("alice")
	d.sh("alice", "echo work > work.txt")
	for _, verb := range [][]string{
		{"merge", "alice"}, {"merge", "alice", "--dry-run"}, {"queue", "add", "alice"}, {"queue", "remove", "alice"}, {"queue", "priority", "alice", "3"},
		{"revert", "alice"}, {"discard", "alice", "--yes"}, {"restore", "alice"}, {"restore", "nobody"},
		{"agents", "diff", "alice"}, {"agents", "rebase", "alice"}, {"agents", "pr", "alice"}, {"maintenance", "--now"},
	} {
		e := d.refused(api.CodeBadState, verb...)
		require.Contains(t, e.Message, "is not a git repository", "%v", verb)
		require.Contains(t, e.Hint, "git init", "%v", verb)
	}
	d.refused(api.CodeBadRequest, "agents", "add", "bob", "--base", "custom", "--branch", "topic")
	for _, verb := range [][]string{{"merge", "--all"}, {"queue"}, {"conflicts"}, {"gc", "--dry-run"}, {"status"}} {
		d.must(verb...)
	}
	a, there := d.agent("alice")
	require.True(t, there)
	require.Equal(t, api.StatusIdle, a.Status)
	require.Equal(t, "work\n", readFile(filepath.Join(dir, "work.txt")))
}

// TestAPlainDirectoryBecomesARepository: agents without branches continue, across restarts, and new
// agents get branches.
func TestAPlainDirectoryBecomesARepository(t *testing.T) {
	d := startDaemon(t, options{})
	dir, _ := d.plain(owner)
	d.add("alice")
	d.sh("alice", "echo work > work.txt")
	git(t, dir, "init", "-q", "-b", "main")
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-qm", "Start")
	d.giveAway(dir)
	out := d.must("up", "--repo", dir, d.path("ws"))
	require.Contains(t, out, "has become a git repository")
	d.stop()
	d.start()
	require.Empty(t, d.report().Errors)
	require.Equal(t, "work\n", d.sh("alice", "cat work.txt"))
	d.refused(api.CodeBadState, "merge", "alice")
	out = d.must("up", "--adopt-git", "--repo", dir, d.path("ws"))
	require.Contains(t, out, "has become a git repository", "alice has no branch")
	d.must("agents", "remove", "alice")
	d.must("up", "--adopt-git", "--repo", dir, d.path("ws"))
	d.worker("carol")
	d.task("carol", commitOf("carol.txt", "carol"))
	d.fate("carol", api.MergeMerged)
	require.Equal(t, "carol\n", readFile(filepath.Join(dir, "carol.txt")))
	require.Equal(t, "work\n", strings.TrimLeft(git(t, dir, "show", "main:work.txt"), " "))
}

// TestAnAgentsGitIsNotAdopted: no up and no restart takes a .git that an agent made in a plain
// directory for the project's, whether it is sound or damaged. When a person adopts one, its
// filters do not run.
func TestAnAgentsGitIsNotAdopted(t *testing.T) {
	d := startDaemon(t, options{})
	dir, _ := d.plain(owner)
	marker := d.marker("marker")
	d.add("alice")
	d.sh("alice", `git init -q -b main && git add -A && git commit -qm Start && git config filter.x.clean `+marker.script+` && git config filter.x.smudge `+marker.script+` && git config core.fsmonitor `+marker.script+` &&
echo '* filter=x' > .gitattributes && git -c filter.x.clean=cat add .gitattributes && git -c filter.x.clean=cat commit -qm attributes`)
	d.must("agents", "remove", "alice")
	isPlain := func() {
		t.Helper()
		var up api.UpResponse
		require.NoError(t, json.Unmarshal([]byte(d.must("--json", "up", "--repo", dir, d.path("ws"))), &up))
		require.False(t, up.Workspace.Git)
		require.Len(t, up.Warnings, 1)
		require.Contains(t, up.Warnings[0], "--adopt-git")
		require.NoFileExists(t, marker.file)
	}
	isPlain()
	d.stop()
	d.start()
	isPlain()
	// One that git cannot read does not block the workspace.
	head := filepath.Join(dir, ".git", "HEAD")
	require.NoError(t, os.Rename(head, head+".away"))
	d.stop()
	d.start()
	require.Empty(t, d.report().Errors)
	isPlain()
	require.NoError(t, os.Rename(head+".away", head))

	d.must("up", "--adopt-git", "--repo", dir, d.path("ws"))
	d.worker("carol")
	d.task("carol", commitOf("carol.txt", "carol"))
	d.fate("carol", api.MergeMerged)
	require.NoFileExists(t, marker.file, "a filter ran")
	marker.works(func() { d.asOwner(dir, "status") })
}

// TestSystemDirectoriesAreRefusedAsProjects: root's directories that a machine runs on are not
// given to agents.
func TestSystemDirectoriesAreRefusedAsProjects(t *testing.T) {
	d := startDaemon(t, options{})
	for _, dir := range []string{"/etc", "/usr/lib", "/root", "/"} {
		e := d.refused(api.CodeWorkspaceInvalid, "up", "--repo", dir, d.path("ws"))
		require.NotEmpty(t, e.Hint, dir)
	}
}
