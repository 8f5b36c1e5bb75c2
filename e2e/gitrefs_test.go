package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestToolsKeepRefsOfTheirOwn: refs in namespaces other than those of branches, tags, notes and remotes are the
// agent's alone. They are its work until it is removed, are saved with it and come back with it.
func TestToolsKeepRefsOfTheirOwn(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice")
	d.add("bob")
	d.sh("alice", ident+commitOf("a.txt", "x")+"; "+commitOf("b.txt", "y"))
	d.sh("alice", "git update-ref refs/entire/x HEAD; git update-ref refs/jj/keep/1 HEAD; git update-ref refs/backup/heads/main HEAD~1")
	// A replacement counts for the agent's git, and for nothing that polis reads.
	d.sh("alice", "git replace HEAD~1 HEAD~2; test \"$(git log -1 --format=%s HEAD~1)\" = \"$(git log -1 --format=%s main)\"")
	d.sh("alice", "git notes add -m hello; git notes show | grep -q hello; echo 3 >b.txt; git stash -q; git stash pop -q; git checkout -q b.txt")
	require.NotContains(t, d.sh("bob", "git for-each-ref"), "refs/jj")
	require.NotContains(t, git(t, d.bare(), "for-each-ref"), "refs/jj")
	require.Contains(t, d.must("agents", "why", "alice"), "refused nothing")
	d.must("merge", "alice")
	require.Contains(t, d.inTarget(), "a.txt", "the replaced commit was merged, too")
	d.sh("alice", "git replace -d $(git replace -l)")

	// What only such a ref has is work, and its trash has it.
	keep := "git update-ref refs/jj/keep/2 $(echo lost | git commit-tree HEAD^{tree} -p HEAD)"
	d.sh("alice", keep)
	e := d.refused(api.CodeUnsavedWork, "agents", "remove", "alice")
	require.Contains(t, e.Message, "1 commit not in main; part of it only in refs of its tools: refs/")
	require.Contains(t, e.Hint, "polisctl restore alice")
	was := d.sh("alice", "git for-each-ref refs/jj refs/entire refs/backup; git log -1 --format=%s refs/jj/keep/2")
	require.Contains(t, was, "lost")
	d.must("agents", "remove", "alice", "--force")
	require.NoDirExists(t, d.path("ws", ".polis", "private", "alice"))
	d.must("restore", "alice")
	require.Equal(t, was, d.sh("alice", "git for-each-ref refs/jj refs/entire refs/backup; git log -1 --format=%s refs/jj/keep/2"))
	d.sh("alice", "git update-ref -d refs/jj/keep/2")
	d.must("agents", "remove", "alice")

	// A ref that names no commit is in no commit of the trash: all of the git directory is kept.
	d.add("carol")
	d.sh("carol", "git update-ref refs/entire/blob $(echo only here | git hash-object -w --stdin)")
	d.refused(api.CodeUnsavedWork, "agents", "remove", "carol")
	d.must("agents", "remove", "carol", "--force")
	kept := glob(d.path("ws", ".polis", "trash", "*", "private", "refs", "entire", "blob"))
	require.Len(t, kept, 1, "%v", glob(d.path("ws", ".polis", "trash", "*")))
}

// TestHostileRefsStopNoRemoval: an agent writes what it likes below its own refs.
func TestHostileRefsStopNoRemoval(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	for name, script := range map[string]string{
		"many":  `for i in $(seq 5000); do cp .one "$g/refs/x/$i"; done`,
		"deep":  `p="$g/refs/x"; for i in $(seq 60); do p="$p/d"; mkdir -p "$p" || break; cp .one "$p/f"; done`,
		"odd":   `mkfifo "$g/refs/x/fifo" || true; ln -s /etc/passwd "$g/refs/x/link" || true; echo hello >"$g/refs/x/text"; mkdir "$g/refs/x/a.lock"`,
		"other": `mkdir -p "$g/refs/x/heads"; echo 0123456789012345678901234567890123456789 >"$g/refs/x/dangling"`,
	} {
		d.add(name)
		d.exec(name, "sh", "-c", `g="$(git rev-parse --git-common-dir)"; mkdir -p "$g/refs/x"; git rev-parse HEAD >.one; `+script+`; rm -f .one`)
		d.must("agents", "remove", name, "--force")
	}
}

// TestGitsOwnMaintenanceEndsWhole: what rewrites history or packs objects does all of it, or nothing.
func TestGitsOwnMaintenanceEndsWhole(t *testing.T) {
	d := startDaemon(t, options{})
	project := d.up()
	d.add("alice")
	d.sh("alice", ident+commitOf("secret.txt", "s3cr3t")+"; "+commitOf("b.txt", "y"))
	d.sh("alice", "FILTER_BRANCH_SQUELCH_WARNING=1 git filter-branch --index-filter 'git rm -q --cached --ignore-unmatch secret.txt' main..HEAD")
	require.Empty(t, d.sh("alice", "git status --porcelain; git ls-files secret.txt"), "index and files are those of the new history")
	d.sh("alice", "git show-ref --verify -q refs/original/refs/heads/agent/alice; "+commitOf("c.txt", "z"))
	require.NotContains(t, d.sh("alice", "git log --format= --name-only main..HEAD"), "secret.txt")

	d.sh("alice", "echo stashed >b.txt; git stash -q; git add -A")
	r := d.exec("alice", "git", "gc")
	require.Zero(t, r.code, r.String())
	require.NotContains(t, r.stderr, "ermission denied")
	require.NotContains(t, d.must("agents", "why", "alice"), "UNDECLARED_WRITE")
	d.sh("alice", "git gc -q --prune=now; git repack -adq; git prune; git fsck --no-dangling; git stash show -p | grep -q stashed; git show refs/original/refs/heads/agent/alice:secret.txt | grep -q s3cr3t")
	// packed-refs is shared: it is refused before anything has changed.
	r = d.exec("alice", "git", "pack-refs", "--all")
	require.NotZero(t, r.code)
	require.Contains(t, d.must("agents", "why", "alice"), "git pack-refs without --all")
	d.sh("alice", "git fsck --no-dangling; git stash pop -q; git commit -qam stashed")
	d.must("merge", "alice")
	require.Equal(t, "stashed\n", readFile(filepath.Join(project, "b.txt")))
	require.NotContains(t, git(t, project, "log", "--format=", "--name-only"), "secret.txt")
	_, err := os.Stat(filepath.Join(project, ".git", "refs", "original"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
