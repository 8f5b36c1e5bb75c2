package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// fork forks an agent and returns the answer.
func (d *daemon) fork(from, name string, flags ...string) (res api.ForkResponse) {
	d.t.Helper()
	require.NoError(d.t, json.Unmarshal([]byte(d.must(append([]string{"--json", "agents", "fork", from, name}, flags...)...)), &res))
	return res
}

// TestAForkHasTheWorkOfOneMoment: what is committed, staged, changed, removed and untracked, as it
// was at one moment while the first agent continues to write, and none of what it does later.
func TestAForkHasTheWorkOfOneMoment(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("first", "--memory", "300")
	d.sh("first", `git rm -q --cached README.md; echo '*.log' > .gitignore; echo one > done.txt; git add .gitignore done.txt README.md; git commit -qm done
echo staged > staged.txt; git add staged.txt; echo later >> staged.txt; echo two >> done.txt
mkdir new; printf 'a\r\nb' > 'new/odd name'; ln -s ../done.txt new/link; echo '#!/bin/sh' > new/run; chmod +x new/run; echo noise > x.log; echo 1 > a; echo 1 > b`)
	over := d.later("first", `n=1; while [ ! -e stop ]; do n=$((n+1)); echo $n > .a; mv .a a; echo $n > .b; mv .b b; done; echo $n`)
	work := make(chan result, 1)
	go func() { work <- over() }()
	read := func(agent, name string) string {
		a, _ := d.agent(agent)
		return strings.TrimSpace(readFile(filepath.Join(a.WorktreePath, name)))
	}
	d.eventually("it writes", func() bool { return len(read("first", "a")) > 2 })
	res := d.fork("first", "second")
	require.Equal(t, api.StatusIdle, res.Agent.Status)
	require.Equal(t, "agent/second", res.Agent.Branch)
	require.Equal(t, 300, res.Agent.MemoryLimitMB)
	require.Empty(t, res.LeftOut)
	// a is written first: it is b, or one ahead of it, at every moment.
	require.Equal(t, "true", strings.TrimSpace(d.sh("second", `a=$(cat a) b=$(cat b); [ $((a-b)) -eq 0 ] || [ $((a-b)) -eq 1 ] && echo true`)))
	require.Equal(t, "one\ntwo\nstaged\nlater\na\r\nb", strings.TrimSpace(d.sh("second", `cat done.txt staged.txt 'new/odd name'`)))
	require.Equal(t, "../done.txt", strings.TrimSpace(d.sh("second", `test -x new/run && test ! -e x.log && readlink new/link`)))
	require.Equal(t, "staged", strings.TrimSpace(d.sh("second", "git show :staged.txt")))
	require.Equal(t, res.Commit, strings.TrimSpace(d.sh("second", "git rev-parse HEAD")))
	require.Equal(t, d.sh("first", "git rev-parse HEAD"), d.sh("second", "git rev-parse HEAD"))
	require.Contains(t, d.sh("second", "git status --porcelain"), "AM staged.txt\n")
	now := read("first", "a")
	d.eventually("the first one continues", func() bool { return read("first", "a") != now })

	// Each has its own from now on.
	d.sh("second", "echo mine > mine.txt; git add mine.txt; git commit -qm mine")
	a, _ := d.agent("first")
	require.NoError(t, os.WriteFile(filepath.Join(a.WorktreePath, "stop"), nil, 0o666))
	r := <-work
	require.Zero(t, r.code, r)
	require.NoFileExists(t, filepath.Join(a.WorktreePath, "mine.txt"))
	require.Empty(t, git(t, d.internal(), "for-each-ref", "refs/polis/trash/"), "what was saved for the fork is deleted")

	// A stopped agent, with ignored files, and with less than it has.
	d.must("agents", "stop", "first")
	third := d.fork("first", "third", "--ignored", "--branch", "try/third", "--memory", "200", "--ephemeral")
	require.Equal(t, []any{"try/third", 200, true}, []any{third.Agent.Branch, third.Agent.MemoryLimitMB, third.Agent.Ephemeral})
	require.Equal(t, "noise", strings.TrimSpace(d.sh("third", "cat x.log")))
	d.refused(api.CodeForbidden, "agents", "fork", "first", "fourth", "--memory", "400")
	d.refused(api.CodeAgentExists, "agents", "fork", "first", "second")
	d.refused(api.CodeRefConflict, "agents", "fork", "first", "fourth", "--branch", "try/third")
	require.Equal(t, "try/fifth", d.fork("first", "fourth", "--branch", "try/fifth").Agent.Branch)
	d.refused(api.CodeAgentNotFound, "agents", "fork", "nobody", "sixth")
	_, there := d.agent("sixth")
	require.False(t, there)
	require.Contains(t, d.must("events", "--json"), `"agent:forked"`)
}

// TestAForkThatPolisdDiesIn is complete or not there, whatever polisd came by, and the first agent
// continues.
func TestAForkThatPolisdDiesIn(t *testing.T) {
	diesInAFork(t, `worktree = "full"`, "fork:frozen", "save:kept", "fork:saved", "fork:noted", "restore:files", "up:shim", "fork:done")
}

// TestACopyThatPolisdDiesIn is the same for agents that share a base tree.
func TestACopyThatPolisdDiesIn(t *testing.T) {
	diesInAFork(t, `worktree = "shared"`, "copy:claimed", "copy:made", "fork:saved", "fork:noted", "copy:linked", "copy:placed", "copy:mounted", "restore:files", "up:shim", "fork:done")
}

func diesInAFork(t *testing.T, worktree string, steps ...string) {
	d := startDaemon(t, options{failpoints: true, config: "[workspace]\n" + worktree + "\n"})
	d.up()
	d.add("first")
	d.sh("first", "echo precious > work.txt; echo more >> main.txt; git add main.txt")
	over := d.later("first", `while [ ! -e stop ]; do date +%s.%N > beat.new; mv beat.new beat; sleep 0.02; done`)
	work := make(chan result, 1)
	go func() { work <- over() }()
	a, _ := d.agent("first")
	beat := func() string { return readFile(filepath.Join(a.WorktreePath, "beat")) }
	d.eventually("it works", func() bool { return beat() != "" })
	do := func() result { return d.ctl("agents", "fork", "first", "second") }
	require.Subset(t, d.steps(do), steps)
	d.must("agents", "remove", "second", "--force")
	for _, ref := range strings.Fields(git(t, d.internal(), "for-each-ref", "refs/polis/trash/", "--format=%(refname)")) {
		git(t, d.internal(), "update-ref", "-d", ref)
	}
	layers := glob(d.path("ws", ".polis", "layers", "*"))
	for _, step := range steps {
		d.dieAt(step, do)
		rep := d.report()
		require.Empty(t, rep.Errors, step)
		was := beat()
		d.eventually("the first agent continues after "+step, func() bool { return beat() != was })
		if _, there := d.agent("second"); there {
			require.Equal(t, "fork:done", step)
			require.Equal(t, "precious", strings.TrimSpace(d.sh("second", "cat work.txt")))
			require.Contains(t, d.sh("second", "git diff --cached"), "+more")
			continue
		}
		d.nothingOf("second", step)
		require.Equal(t, layers, glob(d.path("ws", ".polis", "layers", "*")), step)
	}
	require.NoError(t, os.WriteFile(filepath.Join(a.WorktreePath, "stop"), nil, 0o666))
	r := <-work
	require.Zero(t, r.code, r)
	require.Equal(t, "precious", strings.TrimSpace(d.sh("first", "cat work.txt")))
}

// TestAForkOfABaseTreeHasTheWholeWork: an agent that shares a base tree is forked by a copy of what it
// changed, as it is: also what git does not store. Both are independent afterwards.
func TestAForkOfABaseTreeHasTheWholeWork(t *testing.T) {
	d := layered(t, options{})
	d.add("first")
	d.sh("first", `set -e; echo done > done.txt; git add -A; `+ident+`git commit -qm done
		echo '*.log' > .gitignore; echo staged > staged.txt; git add staged.txt; echo later >> staged.txt; echo more >> main.txt
		rm src/b.txt; mv src/deep moved; mkdir -p empty/dir; ln -s ../main.txt docs/link; echo noise > x.log
		git init -q own; echo in > own/file; `+ident+`git stash list; echo x > s; git add s; `+ident+`git stash -q; git stash apply -q --index; rm -f s; git rm -q --cached s; chmod 600 main.txt`)
	res := d.fork("first", "second")
	require.Empty(t, res.LeftOut)
	status := d.sh("first", "git status --porcelain --ignored")
	require.Contains(t, status, "AM staged.txt")
	require.Equal(t, strings.ReplaceAll(status, "!! x.log\n", ""), d.sh("second", "git status --porcelain --ignored"))
	require.Equal(t, "staged\n", d.sh("second", "git show :staged.txt"))
	require.Equal(t, "600 c in ../main.txt", strings.TrimSpace(d.sh("second", "set -e; test -d empty/dir; test ! -e src/b.txt; test ! -e x.log; echo $(stat -c %a main.txt) $(cat moved/er/c.txt) $(cat own/file) $(readlink docs/link)")))
	require.Empty(t, d.sh("second", "git stash list"), "a stash is one agent's")
	require.NotEmpty(t, d.sh("first", "git stash list"))
	require.Len(t, d.bases(), 1)
	require.Equal(t, 2, d.overlays())
	require.Empty(t, git(t, d.internal(), "for-each-ref", "refs/polis/trash/"))

	d.sh("second", "echo second > README.md; "+ident+"git commit -qm second README.md")
	require.Equal(t, status, d.sh("first", "git status --porcelain --ignored"))
	d.must("agents", "remove", "first", "--force")
	require.Equal(t, "second\n", d.sh("second", "cat README.md; git status --porcelain -- README.md"))
	third := d.fork("second", "third", "--ignored", "--branch", "try/third")
	require.Equal(t, "try/third", third.Agent.Branch)
	d.must("agents", "stop", "third")
	require.NotContains(t, d.own("third"), "docs/guide.md", "only the changes are copied")
	d.must("agents", "remove", "second", "--force")
	d.must("agents", "remove", "third", "--force")
	require.Empty(t, glob(d.path("ws", ".polis", "layers", "*")))
	require.Zero(t, d.overlays())
}

// TestAForkOnAFullDisk is refused and leaves nothing, and the first agent continues.
func TestAForkOnAFullDisk(t *testing.T) {
	disk, fill := smallDisk(t)
	d := startDaemon(t, options{config: "[admission]\ndisk_free_mb = 0\n"})
	d.must("up", "--repo", d.smallRepo(), filepath.Join(disk, "ws"))
	d.add("first")
	d.sh("first", "echo precious > work.txt")
	filler := fill()
	r := d.ctl("agents", "fork", "first", "second")
	require.NotZero(t, r.code)
	require.Contains(t, r.stderr, "fork agent first")
	_, there := d.agent("second")
	require.False(t, there)
	require.Empty(t, glob(filepath.Join(disk, "ws", ".polis", "save-*")))
	require.Equal(t, "precious", strings.TrimSpace(d.sh("first", "cat work.txt")), "it is not left frozen")
	require.NoError(t, os.Remove(filler))
	d.must("agents", "exec", "first", "--", "git", "status")
	d.fork("first", "second")
	require.Equal(t, "precious", strings.TrimSpace(d.sh("second", "cat work.txt")))
}

// TestAForkReadsWhatTheFirstAgentMayRead: what its rules withhold is withheld from the new agent too,
// in the tree and among the objects, and the work beside it is there.
func TestAForkReadsWhatTheFirstAgentMayRead(t *testing.T) {
	d, id := withheldBed(t)
	d.sh("alice", "echo mine >> main.txt; echo new > new.txt; git add new.txt")
	d.fork("alice", "second")
	require.Equal(t, "one\ntwo\nthree\nmine\nnew\n", d.sh("second", "cat main.txt new.txt"))
	require.Equal(t, "A  new.txt", strings.TrimSpace(d.sh("second", "git status --porcelain -- new.txt secret")))
	for _, script := range []string{"cat secret/key.txt", "git show HEAD:secret/key.txt", "git cat-file -p " + id, "git cat-file --batch-all-objects --batch"} {
		r := d.exec("second", "sh", "-c", script)
		require.NotContains(t, r.stdout+r.stderr, secretText, script)
	}
	d.sh("second", ident+"git add -A; git commit -qm forked")
	d.must("merge", "second")
	require.Contains(t, readFile(d.path("ws", "project", "secret", "key.txt")), secretText)
}
