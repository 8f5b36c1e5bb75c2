package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestAnAgentCannotMakeItselfUnremovable: whatever an agent does to its own part of the git
// directory, it is listed, it can be removed by force, and its files are kept.
func TestAnAgentCannotMakeItselfUnremovable(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	broken := `t=$(git rev-parse HEAD^{tree}); c=$(printf 'tree %s\nparent ` + absentCommit + `\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n\nx\n' $t | git hash-object -w -t commit --stdin); `
	const own = "cd $(git rev-parse --git-dir); "
	for name, script := range map[string]string{
		"head":    broken + own + "echo $c > HEAD",
		"nowhere": own + "echo " + absentCommit + " > HEAD",
		"garbage": own + "head -c 5000 /dev/urandom > HEAD",
		"nohead":  own + "rm HEAD",
		"stash":   broken + "cd $(git rev-parse --git-common-dir); echo $c > refs/stash",
		"pipe":    "cd $(git rev-parse --git-common-dir); mkfifo refs/stash",
		"index":   own + "head -c 5000 /dev/urandom > index",
		"noindex": own + "rm index; mkdir index",
		"empty":   own + "rm -rf * 2>/dev/null || true",
		"config":  own + "printf '[core]\\n\\tworktree = /\\n\\tbare = true\\n[include]\\n\\tpath = /etc/shadow\\n[broken' > config.worktree; cd ../..; cp worktrees/*/config.worktree config",
		"dotdot":  "mkdir aa; echo x > aa/zz; git add aa/zz; i=$(git rev-parse --git-dir)/index; " + dotdot,
		"hole":    "echo x > hole.txt; git add hole.txt; truncate -s 1T hole.txt; truncate -s 1T main.txt; truncate -s 1T other.txt",
		"waits":   "! mkfifo .gitattributes; ! mkfifo src/.gitignore; mkfifo p; ! mv -T p src/.gitignore; ! ln p src/.gitignore; ! mv -fT p .gitignore; git status >/dev/null",
		"dark":    "mkdir -p dark/er; echo x > dark/er/f; chmod 000 dark",
		"odd":     "mkfifo pipe; mknod sock p; touch \"$(printf 'a\\nb\\377')\"; mkdir -p deep; (cd deep; for i in $(seq 300); do mkdir 0123456789; cd 0123456789; done; echo deep > f)",
	} {
		t.Run(name, func(t *testing.T) {
			d := &daemon{t: t, dir: d.dir, bin: d.bin}
			a := d.add(name)
			d.sh(name, "echo precious > "+name+".txt; "+script)
			d.must("agents", "list")
			d.ctl("agents", "diff", name)
			d.must("agents", "remove", name, "--force")
			require.NoDirExists(t, a.WorktreePath)
			found := false
			require.NoError(t, filepath.WalkDir(d.path("ws", ".polis", "trash"), func(path string, e os.DirEntry, err error) error {
				if os.IsNotExist(err) {
					return nil
				}
				found = found || err == nil && e.Name() == name+".txt"
				return err
			}))
			bare := d.internal()
			for _, ref := range strings.Fields(git(t, bare, "for-each-ref", "--format=%(refname)", "refs/polis/trash/"+name)) {
				found = found || strings.Contains(git(t, bare, "ls-tree", "--name-only", ref), name+".txt")
			}
			require.True(t, found, "the work is kept")
		})
	}
	// And it blocks no other.
	d.add("last")
	d.sh("last", "git log --all >/dev/null; git fsck; echo y > y; git add y; "+ident+"git commit -qm y")
	d.must("maintenance", "--now")
	d.must("merge", "last")
}

// dotdot gives an entry of the index $i a name that leads out of the worktree.
const dotdot = `python3 -c '
import sys, hashlib
b = open(sys.argv[1], "rb").read()
assert b.count(b"aa/zz") == 1 and hashlib.sha1(b[:-20]).digest() == b[-20:]
b = b[:-20].replace(b"aa/zz", b"../zz")
open(sys.argv[1], "wb").write(b + hashlib.sha1(b).digest())
' $i`

const absentCommit = "deadbeefdeadbeefdeadbeefdeadbeefdeadbeef"

// TestAPipeBlocksNoGitOfPolisd: views refuse them; one that lies there all the same, of
// an earlier version or the user's, makes no command wait.
func TestAPipeBlocksNoGitOfPolisd(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice")
	d.sh("alice", "echo precious > alice.txt; mkdir -p src/pipe")
	d.must("agents", "stop", "alice")
	require.NoError(t, syscall.Mkfifo(filepath.Join(d.files("alice"), "src", "pipe", ".gitignore"), 0o644))
	require.NotZero(t, d.ctl("agents", "diff", "alice").code)
	var r api.RemoveResponse
	require.NoError(t, json.Unmarshal([]byte(d.must("--json", "agents", "remove", "alice", "--force")), &r))
	require.Equal(t, "precious\n", readFile(filepath.Join(r.Aside, "worktree", "alice.txt")), "kept, and said where")
	fi, err := os.Lstat(filepath.Join(r.Aside, "worktree", "src", "pipe", ".gitignore"))
	require.NoError(t, err)
	require.NotZero(t, fi.Mode()&os.ModeNamedPipe)
	d.add("alice")
	require.Equal(t, "one\ntwo\nthree\n", d.sh("alice", "cat main.txt"))
}

// TestABranchHasOneOwner: what one agent made, no other one is added on.
func TestABranchHasOneOwner(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice")
	d.sh("alice", "git branch feature; ! git branch agent/bob; ! git tag main; ! git tag agent/bob")
	e := d.refused(api.CodeRefConflict, "agents", "add", "bob", "--base", "custom", "--branch", "feature")
	require.Contains(t, e.Message, "alice")
	d.add("bob")
	d.must("agents", "remove", "alice", "--force")
	d.must("agents", "add", "carol", "--base", "custom", "--branch", "feature")
}

// TestAnAgentsOwnSocketIsBounded: silent connections use up neither the agent's files nor those of
// others, and are closed.
func TestAnAgentsOwnSocketIsBounded(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice")
	out := d.sh("alice", `python3 -c '
import socket, time, select
held = []
for i in range(600):
    s = socket.socket(socket.AF_UNIX)
    try:
        s.connect("/run/polis/api.sock")
        s.sendall(b"POST /v1/lock HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        held.append(s)
    except OSError: pass
time.sleep(1)
over = lambda: sum(1 for s in select.select(held, [], [], 0)[0])
print("refused", 600 - len(held) + over())
assert open("main.txt").read()
open("main.txt", "a").write("x")
end = time.time() + 60
while over() < len(held) and time.time() < end: time.sleep(.2)
print("left", len(held) - over())
'`)
	var refused, left int
	_, err := fmt.Sscanf(out, "refused %d\nleft %d", &refused, &left)
	require.NoError(t, err, out)
	require.GreaterOrEqual(t, refused, 300)
	require.Zero(t, left)
	d.sh("alice", "curl -sS --fail --unix-socket /run/polis/api.sock http://p/v1/status")
}

// TestWhyIsWrittenBeforeTheRefusalReturns: a program that was refused may look right away.
func TestWhyIsWrittenBeforeTheRefusalReturns(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice", "--deny", "*.pem", "--read", "**", "--write", "**")
	for i := range 20 {
		name := fmt.Sprintf("%d.pem", i)
		out := d.sh("alice", "sleep 0.05; echo x 2>/dev/null > "+name+" || cat /run/polis/why")
		require.Contains(t, out, name)
	}
}

// TestPolisDirectoriesAreRefusedAsProjects: an agent could change there what says what it may do.
func TestPolisDirectoriesAreRefusedAsProjects(t *testing.T) {
	d := startDaemon(t, options{})
	project := d.up()
	require.NoError(t, os.Symlink(d.path("ws", ".polis"), d.path("link")))
	for _, repo := range []string{d.path("run"), d.path("run", "agents"), d.path("ws", ".polis"), d.path("ws", ".polis", "bare-repo.git"), d.path("link", "worktrees")} {
		e := d.refused(api.CodeWorkspaceInvalid, "up", "--repo", repo, d.path("other"))
		require.Contains(t, e.Message, "would lie in")
	}
	d.refused(api.CodeWorkspaceInvalid, "up", "--repo", project, d.path("link", "inner"))
	require.NoDirExists(t, d.path("ws", ".polis", "inner"))
	require.NoDirExists(t, d.path("other"))
}

// TestAWorkspaceThatCouldNotBeMadeLeavesNothing, whichever step failed.
func TestAWorkspaceThatCouldNotBeMadeLeavesNothing(t *testing.T) {
	d := startDaemon(t, options{})
	empty := d.path("empty")
	git(t, d.dir, "init", "-q", empty)
	d.refused(api.CodeWorkspaceInvalid, "up", "--repo", empty, d.path("ws"))
	require.NoDirExists(t, d.path("ws"))
	require.NotZero(t, d.ctl("up", "--repo", "file://"+d.path("nowhere"), d.path("ws")).code)
	require.NoDirExists(t, d.path("ws"))
	require.NoError(t, os.MkdirAll(d.path("ws", "mine"), 0o755))
	d.refused(api.CodeWorkspaceInvalid, "up", "--repo", empty, d.path("ws"))
	require.DirExists(t, d.path("ws", "mine"))
	require.NoDirExists(t, d.path("ws", ".polis"))
}
