package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// nestedDirs are where an agent can have git worktrees of its own, with the names of their branches.
var nestedDirs = map[string]string{"inside": "$PWD/.claude/worktrees/inside", "home": "$HOME/home", "temp": "/tmp/temp"}

// What the rules withhold is in no git worktree that the agent makes, wherever it is, and the rest is.
func TestNestedWorktreesHaveNothingThatIsWithheld(t *testing.T) {
	d, id := withheldBed(t)
	d.add("carol", "--hide", "secret/**")
	for _, agent := range []string{"alice", "carol"} {
		for name, dir := range nestedDirs {
			at := "cd " + dir + "; "
			branch := "sub/" + agent + "-" + name
			d.sh(agent, ident+"git worktree add -q -b "+branch+" "+dir)
			require.Equal(t, "one\ntwo\nthree\n", d.sh(agent, at+"git status --porcelain; test ! -e secret/key.txt; cat main.txt"))
			for _, script := range []string{
				"cat secret/key.txt",
				"git show HEAD:secret/key.txt",
				"git checkout HEAD -- secret; cat secret/*",
				"git cat-file -p " + id,
				"git -c core.sparseCheckout=false reset --hard; cat secret/*",
				"git sparse-checkout disable; git reset --hard; cat secret/*",
				"git stash -u; git archive HEAD; git log -p --all; git grep TOKEN HEAD",
				"rm $(git rev-parse --git-dir)/info/sparse-checkout; git read-tree --reset -u HEAD; cat secret/*",
			} {
				r := d.exec(agent, "sh", "-c", at+script)
				require.NotContains(t, r.stdout+r.stderr, secretText, "%s in %s: %s", agent, dir, script)
			}
			d.sh(agent, "git worktree remove --force "+dir+"; git worktree add -q "+dir+" "+branch)
			require.Equal(t, "more\n", d.sh(agent, at+"echo more >"+name+"-"+agent+".txt; git add -A; git commit -qm "+name+"; git status --porcelain; cat "+name+"-"+agent+".txt"))
		}
		// The withheld file is in the merged commits as it was.
		d.sh(agent, "git merge -q --no-edit sub/"+agent+"-home sub/"+agent+"-inside sub/"+agent+"-temp")
		d.must("merge", agent)
		require.Contains(t, d.inTarget(), "temp-"+agent+".txt")
		require.Equal(t, secretText+"\n", git(t, d.bare(), "show", "main:secret/key.txt"))
		require.Contains(t, d.must("agents", "why", agent), "secret/key.txt")
		for _, dir := range nestedDirs {
			d.sh(agent, "git worktree remove "+dir)
		}
		d.must("agents", "remove", agent)
	}
}

// The rules for writing hold for the paths that files have in the agent, and at the merge for those that they have in the
// commits.
func TestNestedWorktreesDoNotWidenTheRulesForWriting(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice", "--write", "src/**", "--write", "docs/**", "--read", "**")
	require.NotZero(t, d.exec("alice", "sh", "-c", "git worktree add -b sub/inside $PWD/.claude/worktrees/inside").code)
	require.Contains(t, d.must("agents", "why", "alice"), "mkdir .claude: UNDECLARED_WRITE")
	for _, dir := range []string{"$HOME/home", "/tmp/temp", "$PWD/src/nested"} {
		name := dir[strings.LastIndex(dir, "/")+1:]
		branch := "sub/" + name
		d.sh("alice", ident+"git worktree add -q -b "+branch+" "+dir+"; cd "+dir+"; echo x >>src/a.txt; git commit -qam allowed; echo x >>main.txt; git commit -qam more")
		require.NotZero(t, d.exec("alice", "git", "merge", "--no-edit", branch).code, "the agent may not change main.txt")
		d.sh("alice", "git update-ref refs/heads/agent/alice "+branch)
		e := d.refused(api.CodeUndeclaredWrite, "merge", "alice")
		require.Contains(t, e.Message, `"main.txt"`)
		require.NotContains(t, e.Message, "src/a.txt")
		// Without it the rest is merged.
		d.sh("alice", "git update-ref refs/heads/agent/alice "+branch+"~1; git reset -q --hard")
		d.must("merge", "alice")
		require.Equal(t, "one\ntwo\nthree\n", git(t, d.bare(), "show", "main:main.txt"))
		require.Contains(t, git(t, d.bare(), "show", "main:src/a.txt"), "x")
		d.sh("alice", "git worktree remove "+dir+"; git branch -D "+branch)
	}
	d.must("agents", "remove", "alice")
}

// A file with an ask rule opens a question before a worktree has it.
func TestANestedWorktreeAsksBeforeItHasAFile(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.worker("alice", "--ask", "docs/**")
	add := func(name string) string { return "git worktree add -q -b sub/" + name + " /tmp/" + name }
	ran := d.working("alice", add("no"))
	d.must("approvals", "deny", d.question("alice").ID)
	r := <-ran
	require.NotZero(t, r.code, "%s", r)
	require.NotContains(t, d.exec("alice", "sh", "-c", "cat /tmp/no/docs/*").stdout, "guide")

	ran = d.working("alice", add("yes"))
	q := d.question("alice")
	require.Contains(t, q.What, "docs/guide.md")
	d.must("approvals", "approve", q.ID)
	r = <-ran
	require.Zero(t, r.code, "%s", r)
	require.Equal(t, "guide\n", d.sh("alice", "cd /tmp/yes; git status --porcelain; cat docs/guide.md"))

	// An approved reading is no permission to change the file.
	d.sh("alice", ident+"cd /tmp/yes; echo changed >docs/guide.md; git commit -qam changed; git update-ref refs/heads/agent/alice sub/yes")
	e := d.refused(api.CodeProtectedPath, "merge", "alice")
	require.Contains(t, e.Message, `"docs/guide.md"`)
	require.Equal(t, "guide\n", git(t, d.bare(), "show", "main:docs/guide.md"))
	d.must("merge", "alice", "--accept-protected")
	require.Equal(t, "changed\n", git(t, d.bare(), "show", "main:docs/guide.md"))
}

// Locks are on the paths that files have in the agent: the worktrees of two agents have different ones, unless they have one
// name.
func TestNestedWorktreesLockThePathsThatTheyHave(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\non_conflict = \"fail\"\nhold = \"10m\"\n"})
	d.up()
	d.add("alice")
	d.add("bob")
	d.sh("alice", ident+"git worktree add -q -b sub/a $PWD/.claude/worktrees/a; git worktree add -q -b sub/ah $HOME/h; cd .claude/worktrees/a; echo alice >>main.txt")
	d.heldBy("alice", ".claude/worktrees/a/main.txt")
	d.sh("bob", ident+"git worktree add -q -b sub/b $PWD/.claude/worktrees/b; git worktree add -q -b sub/bh $HOME/h; cd .claude/worktrees/b; echo bob >>main.txt")
	d.heldBy("bob", ".claude/worktrees/b/main.txt")
	require.NotContains(t, d.locks(), "main.txt")
	d.sh("alice", "cd $HOME/h; echo alice >>main.txt")
	d.sh("bob", "cd $HOME/h; echo bob >>main.txt")

	// One name is one path.
	r := d.exec("bob", "sh", "-c", "mkdir -p .claude/worktrees/a; echo bob >.claude/worktrees/a/main.txt")
	require.NotZero(t, r.code)
	require.Contains(t, r.stderr, "Device or resource busy")
	require.Contains(t, d.must("agents", "why", "bob"), ".claude/worktrees/a/main.txt: FILE_LOCKED")

	// A lock on the project's own path is of the agent's own copy: the conflict comes up at the merge.
	d.sh("alice", "cd .claude/worktrees/a; git commit -qam a; cd ../../..; git merge -q --no-edit sub/a")
	d.heldBy("alice", "main.txt")
	require.NotZero(t, d.exec("bob", "sh", "-c", "git merge -q --no-edit sub/b; echo bob >>main.txt").code)
	d.must("merge", "alice")
	d.sh("bob", "cd .claude/worktrees/b; git commit -qam b")
	d.must("agents", "stop", "alice")
	d.sh("bob", "git merge -q --no-edit sub/b")
	d.refused(api.CodeMergeConflict, "merge", "bob")
	require.Equal(t, "one\ntwo\nthree\nalice\n", git(t, d.bare(), "show", "main:main.txt"))
}
