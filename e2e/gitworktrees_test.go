package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestAnAgentMakesWorktreesOfItsOwn, as programs with sub-agents do.
func TestAnAgentMakesWorktreesOfItsOwn(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice")
	d.add("bob")
	for _, dir := range []string{"$PWD/.claude/worktrees/inside", "$HOME/home", "/tmp/temp"} {
		name := dir[strings.LastIndex(dir, "/")+1:]
		out := d.sh("alice", ident+"git worktree add -q -b sub/"+name+" "+dir+"; cd "+dir+"; test -e main.txt; "+commitOf(name+".txt", name)+"; git status --porcelain; git log -1 --format=%s")
		require.Equal(t, "write "+name+".txt\n", out)
	}
	require.Equal(t, "5\n", d.sh("alice", "git worktree list | wc -l"))
	require.NotContains(t, d.sh("bob", "git worktree list"), "sub/")
	require.Contains(t, d.must("agents", "why", "alice"), "refused nothing")
	// Its agent starts again with them.
	d.must("agents", "stop", "alice")
	d.must("agents", "start", "alice")
	d.sh("alice", "cd $HOME/home; git status --porcelain; git checkout -q -b sub/second; git reset -q --hard")

	// They are its work, and its commits are named.
	e := d.refused(api.CodeNothingToMerge, "merge", "alice")
	require.Contains(t, e.Message, "1 commit is on sub/")
	d.sh("alice", "git merge -q --no-edit sub/home sub/inside sub/temp")
	d.must("merge", "alice")
	require.Contains(t, d.inTarget(), "inside.txt")
	require.NotContains(t, d.inTarget(), ".claude")

	// A worktree whose files are in no commit keeps the agent, and is in the trash with it.
	d.sh("alice", "cd .claude/worktrees/inside; echo precious >new.txt")
	e = d.refused(api.CodeUnsavedWork, "agents", "remove", "alice")
	require.Contains(t, e.Message, "git worktrees of its own: home, inside, temp")
	require.Contains(t, e.Hint, "git worktree remove")
	d.must("agents", "remove", "alice", "--force")
	kept := glob(d.path("ws", ".polis", "trash", "*", "*", ".claude", "worktrees", "inside", "new.txt"))
	kept = append(kept, glob(d.path("ws", ".polis", "trash", "*", ".claude", "worktrees", "inside", "new.txt"))...)
	require.Len(t, kept, 1, "%v", glob(d.path("ws", ".polis", "trash", "*", "*")))

	// Without them the agent can go.
	d.sh("bob", ident+"git worktree add -q -b sub/b $HOME/b; git worktree remove $HOME/b; git branch -q -d sub/b")
	d.must("agents", "remove", "bob")
}

// TestAPushIntoTheAgentsRepository from a clone that the agent made.
func TestAPushIntoTheAgentsRepository(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice")
	d.sh("alice", ident+"p=$PWD; git clone -q . /tmp/c; cd /tmp/c; "+ident+commitOf("pushed.txt", "x")+"; git push -q origin HEAD:refs/heads/feat/pushed; git -C $p log -1 --format=%s feat/pushed | grep -q pushed")
	d.sh("alice", "git fsck --no-dangling; git merge -q feat/pushed")
	r := d.exec("alice", "sh", "-c", "cd /tmp/c && git push -q origin HEAD:main")
	require.NotZero(t, r.code)
	require.Contains(t, d.must("agents", "why", "alice"), "the target branch moves only by polisctl merge")
	d.must("merge", "alice")
	require.Contains(t, d.inTarget(), "pushed.txt")
}
