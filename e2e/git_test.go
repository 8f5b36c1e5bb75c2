package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

const ident = "git config user.name a; git config user.email a@b.example; "

// TestTenAgentsCommitTenTimes: all agents share the object store, and every commit succeeds.
func TestTenAgentsCommitTenTimes(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	const agents, commits = 10, 10
	for i := range agents {
		d.add(fmt.Sprintf("agent%02d", i))
	}
	var wg sync.WaitGroup
	results := make([]result, agents)
	for i := range agents {
		wg.Add(1)
		go func() {
			defer wg.Done()
			name := fmt.Sprintf("agent%02d", i)
			results[i] = d.exec(name, "sh", "-ec", fmt.Sprintf(
				"%s for n in $(seq %d); do echo $n >> %s.txt; git add -A; git commit -q -m \"%s $n\"; git status --porcelain; git log -1 --format=%%s >/dev/null; done", ident, commits, name, name))
		}()
	}
	wg.Wait()
	for i, r := range results {
		require.Zero(t, r.code, "agent%02d: %s", i, r)
	}
	bare := d.path("ws", ".polis", "bare-repo.git")
	for i := range agents {
		n := strings.TrimSpace(git(t, bare, "rev-list", "--count", fmt.Sprintf("main..agent/agent%02d", i)))
		require.Equal(t, fmt.Sprint(commits), n)
	}
	git(t, bare, "fsck", "--full", "--strict", "--no-dangling")
	for i := range agents {
		d.must("merge", fmt.Sprintf("agent%02d", i))
	}
	require.Equal(t, fmt.Sprint(agents*(commits+1)+1), strings.TrimSpace(git(t, bare, "rev-list", "--count", "main")))
}

func TestEverydayGit(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice")
	d.add("bob")
	out := d.sh("alice", ident+`
echo x >> main.txt
git diff --stat
git stash -q; git status --porcelain; git stash pop -q
git commit -qam first
git checkout -q -b feature; echo y > f.txt; git add f.txt; git commit -qm feature
git checkout -q agent/alice; git merge -q --no-edit feature
git tag mine; git log --oneline --all | head -3
git mv f.txt g.txt; git commit -qm moved
git rebase -q HEAD~1
git blame main.txt >/dev/null; git grep -q one; git gc -q --auto
mkdir -p .git-not 2>/dev/null; rmdir .git-not
git worktree list >/dev/null; git rev-parse --git-common-dir`)
	require.Contains(t, out, "main.txt")
	// Configuration, hooks and the stash are each agent's own.
	d.sh("alice", "git config polis.test yes; echo z >> main.txt; git stash -q; printf '#!/bin/sh\\nexit 1\\n' > $(git rev-parse --git-path hooks)/pre-commit; chmod +x $(git rev-parse --git-path hooks)/pre-commit")
	require.NotZero(t, d.exec("bob", "git", "config", "polis.test").code)
	require.Empty(t, d.sh("bob", "git stash list"))
	d.sh("bob", ident+"echo b > b2.txt; git add b2.txt; git commit -qm b")
	// An agent cannot change what belongs to another.
	for _, bad := range []string{
		"git branch -f main HEAD", "git update-ref refs/heads/main HEAD", "git update-ref -d refs/heads/agent/alice", "git branch -D agent/alice",
		"git push -q . HEAD:main", "rm -f $(git rev-parse --git-common-dir)/objects/??/* && git fsck", "rm -rf $(git rev-parse --git-common-dir)/refs/heads/agent",
		"echo x > $(git rev-parse --git-common-dir)/objects/pack/x.pack", "echo garbage > $(git rev-parse --git-common-dir)/packed-refs",
	} {
		d.exec("bob", "sh", "-c", bad)
	}
	bare := d.path("ws", ".polis", "bare-repo.git")
	git(t, bare, "fsck", "--full", "--no-dangling")
	require.Equal(t, "Start\n", git(t, bare, "log", "-1", "--format=%s", "main"))
	require.NotEmpty(t, git(t, bare, "rev-parse", "agent/alice"))
	require.NotContains(t, git(t, bare, "config", "--list"), "polis.test")
	d.sh("alice", "git log -1 --format=%s")
}

func TestMergeConflictChangesNothing(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\nhold = \"0s\"\nwait = \"0s\"\n"})
	project := d.up()
	for _, a := range []string{"alice", "bob"} {
		d.add(a)
	}
	for _, a := range []string{"alice", "bob"} {
		d.eventually(a+" to have the file", func() bool {
			return d.exec(a, "sh", "-ec", ident+"echo "+a+" > main.txt; git commit -qam "+a).code == 0
		})
	}
	d.must("merge", "alice")
	head := git(t, project, "rev-parse", "main")
	e := d.refused(api.CodeMergeConflict, "merge", "bob")
	require.Contains(t, fmt.Sprint(e.Message, e.Details), "main.txt")
	require.Equal(t, head, git(t, project, "rev-parse", "main"))
	require.Empty(t, git(t, project, "status", "--short"))
	b, _ := d.agent("bob")
	require.Equal(t, api.MergePending, b.MergeStatus)
	d.must("discard", "bob", "--yes")
	_, there := d.agent("bob")
	require.False(t, there)
}
