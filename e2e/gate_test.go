package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestGitPlumbingDoesNotGetAroundTheRules: git can record a change that the view refuses to write
// (update-index --cacheinfo). It is not merged.
func TestGitPlumbingDoesNotGetAroundTheRules(t *testing.T) {
	d := startDaemon(t, options{})
	project := d.up()
	d.add("mallory", "--read", "**", "--write", "docs/**")
	require.NotZero(t, d.exec("mallory", "sh", "-c", "echo x > main.txt").code, "the view refuses it")
	d.sh("mallory", ident+`
mkdir -p docs; echo hello > docs/hello.md; git add docs/hello.md
b=$(echo evil | git hash-object -w --stdin)
git update-index --add --cacheinfo 100644,$b,main.txt --cacheinfo 100755,$b,bin/tool
git commit -qm work`)
	before := git(t, project, "rev-parse", "main")
	for _, args := range [][]string{{"merge", "mallory"}, {"merge", "mallory", "--dry-run"}, {"merge", "mallory", "--accept-protected"}} {
		e := d.refused(api.CodeUndeclaredWrite, args...)
		require.Equal(t, []any{"bin/tool", "main.txt"}, e.Details["paths"])
	}
	a, _ := d.agent("mallory")
	require.Equal(t, api.MergePending, a.MergeStatus)
	require.Equal(t, before, git(t, project, "rev-parse", "main"))
	// The administrator allows the write, and merges it.
	d.must("agents", "set", "mallory", "--write", "main.txt", "--write", "bin/**")
	d.must("merge", "mallory")
	require.Equal(t, "evil\n", git(t, project, "show", "main:main.txt"))
}

// TestProtectedPathsAreMergedWhenAPersonAcceptsThem: the automatic merge of a task leaves them
// pending, and the rest of its batch is merged.
func TestProtectedPathsAreMergedWhenAPersonAcceptsThem(t *testing.T) {
	d := startDaemon(t, options{config: "[merge]\nprotected = [\"Makefile\", \".envrc\"]\n"})
	project := d.up()
	d.worker("alice")
	d.worker("bob")
	d.task("alice", commitOf(".envrc", "export X=1"))
	d.task("bob", commitOf("bob.txt", "bob"))
	d.fate("bob", api.MergeMerged)
	d.fate("alice", api.MergePending)
	var out api.QueueOutcome
	d.eventually("the queue knows its outcome", func() bool {
		recent := d.queues().Recent
		i := slices.IndexFunc(recent, func(o api.QueueOutcome) bool { return o.Agent == "alice" })
		if i >= 0 {
			out = recent[i]
		}
		return i >= 0
	})
	require.Equal(t, api.CodeProtectedPath, out.Code)
	require.Equal(t, []string{".envrc"}, out.Paths)
	var dry api.MergeResponse
	require.NoError(t, json.Unmarshal([]byte(d.must("--json", "merge", "alice", "--dry-run")), &dry))
	require.Equal(t, []api.ProtectedPath{{Path: ".envrc", Reason: `protected ".envrc": direnv runs it`}}, dry.Protected)
	require.Contains(t, d.must("merge", "alice", "-n"), `.envrc  (protected ".envrc": direnv runs it)`)
	require.NoFileExists(t, filepath.Join(project, ".envrc"))
	// The reviewed commit is merged, also if the agent continues.
	require.Equal(t, strings.TrimSpace(git(t, d.bare(), "rev-parse", "agent/alice")), dry.Head)
	d.task("alice", commitOf("Makefile", "all: ; rm -rf /"))
	d.eventually("the queue has left the next task of alice pending, too", func() bool {
		q, n := d.queues(), 0
		for _, o := range q.Recent {
			if o.Agent == "alice" {
				n++
			}
		}
		return n == 2 && len(q.Entries) == 0
	})
	d.refused(api.CodeRefConflict, "merge", "alice", "--accept-protected", "--head", dry.Head)
	require.NoFileExists(t, filepath.Join(project, ".envrc"))
	require.NoError(t, json.Unmarshal([]byte(d.must("--json", "merge", "alice", "--dry-run")), &dry))
	require.Len(t, dry.Protected, 2)
	d.must("merge", "alice", "--accept-protected", "--head", dry.Head)
	text, err := os.ReadFile(filepath.Join(project, ".envrc"))
	require.NoError(t, err)
	require.Equal(t, "export X=1\n", string(text))
}

// TestExclusivePathsAreOneAgentsOnly is a part of seed 002: an overlap is refused when the second
// agent is added, and again at the merge.
// TestFilesThatRunSomethingNeedAPerson, by default and in every directory and spelling.
func TestFilesThatRunSomethingNeedAPerson(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("mallory")
	d.sh("mallory", ident+`mkdir -p web/.vscode sub/x.git
echo '{}' | tee web/.vscode/tasks.json OpenCode.json > mise.toml; echo 'ref: refs/heads/x' > sub/x.git/HEAD; ln -s docs .yarn; echo all: > Makefile; echo x > AGENTS.md
git add -A; git commit -qm work`)
	e := d.refused(api.CodeProtectedPath, "merge", "mallory")
	require.ElementsMatch(t, []any{"web/.vscode/tasks.json", "OpenCode.json", "mise.toml", "sub/x.git/HEAD", ".yarn"}, e.Details["paths"])
	require.Contains(t, e.Details["reasons"], `protected "mise.toml": mise runs hooks, and changes PATH and other variables`)
	d.must("merge", "mallory", "--accept-protected")
}

func TestExclusivePathsAreOneAgentsOnly(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("owner", "--exclusive", "src/**")
	d.add("free") // an agent without write rules is checked at its merge
	d.add("docs", "--write", "**", "--write", "!src/**")
	for _, flags := range [][]string{{"--write", "src/a.txt"}, {"--exclusive", "src/b.txt"}, {"--write", "**"}} {
		e := d.refused(api.CodeExclusivePath, append([]string{"agents", "add", "second", "--base", "custom"}, flags...)...)
		require.Equal(t, "owner", e.Details["agent"])
		require.Contains(t, e.Message, `"src/**"`)
	}
	_, there := d.agent("second")
	require.False(t, there)
	d.refused(api.CodeExclusivePath, "agents", "set", "free", "--write", "src/**")
	d.refused(api.CodeExclusivePath, "agents", "set", "docs", "--exclusive", "src/b/**")
	d.sh("free", ident+"echo x >> src/a.txt; echo y > y.txt; git add -A; git commit -qm work")
	e := d.refused(api.CodeUndeclaredWrite, "merge", "free")
	require.Equal(t, []any{"src/a.txt"}, e.Details["paths"])
	require.Contains(t, e.Message, "agent owner")
	d.sh("owner", ident+"echo mine >> src/b.txt; git add -A; git commit -qm work")
	d.must("merge", "owner")
	require.Contains(t, d.must("agents", "policy", "owner"), "exclusive")
	d.must("agents", "remove", "owner", "--force")
	d.must("merge", "free")
}

// TestOnlyThePersonOpensIgnoredFilesToAgents: the .worktreeinclude of the user's checkout selects
// the ignored files that views show. An agent's own copy and its own ignore rules have no effect,
// and are not merged automatically.
func TestOnlyThePersonOpensIgnoredFilesToAgents(t *testing.T) {
	d := startDaemon(t, options{config: "[merge]\nprotected = []\n"})
	repo := d.smallRepo()
	d.seed(repo, map[string]string{".gitignore": "private/\n"})
	git(t, repo, "add", "-A")
	git(t, repo, "commit", "-qm", "What is ignored")
	d.seed(repo, map[string]string{"private/key": "secret\n", "credentials": "secret\n", ".git/info/exclude": "credentials\n"})
	d.must("up", "--repo", repo, d.path("ws"))
	d.add("mallory")
	d.sh("mallory", ident+`
e=$(git rev-parse --git-path info/exclude); mkdir -p $(dirname $e); echo '*' >> $e
echo '*' > .worktreeinclude; git add -f .worktreeinclude; git commit -qm include`)
	hidden := func() {
		t.Helper()
		for _, name := range []string{"credentials", "private/key"} {
			require.NotZero(t, d.exec("mallory", "cat", name).code, name)
		}
	}
	hidden()
	e := d.refused(api.CodeProtectedPath, "merge", "mallory")
	require.Equal(t, []any{".worktreeinclude"}, e.Details["paths"])
	require.NoFileExists(t, filepath.Join(repo, ".worktreeinclude"))
	hidden()
	// The positive control: after a person accepts the change, the files are visible.
	d.must("merge", "mallory", "--accept-protected")
	if d.topMount("mallory") == "overlay" {
		// "A name that was absent when the agent looked it up can stay absent until the agent is started
		// again" (docs/view.md, With the overlay above the view).
		d.must("agents", "stop", "mallory")
		d.must("agents", "start", "mallory")
	}
	d.eventually("mallory sees what the user has accepted", func() bool {
		// Listing a directory also invalidates the kernel's negative entries.
		return d.exec("mallory", "sh", "-c", "ls -A . private >&2; cat credentials private/key").stdout == "secret\nsecret\n"
	})
}

// TestRemoveAfterRemovesAnAgentAfterItsMerge is the end of an agent in seed 001. By default it
// stays.
func TestRemoveAfterRemovesAnAgentAfterItsMerge(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	for _, name := range []string{"stays", "goes", "dirty"} {
		d.add(name)
		d.sh(name, ident+commitOf(name+".txt", name))
	}
	d.sh("dirty", "echo more > not-committed")
	d.must("merge", "stays")
	_, there := d.agent("stays")
	require.True(t, there)

	var r api.MergeResponse
	require.NoError(t, json.Unmarshal([]byte(d.must("--json", "merge", "goes", "--remove-after")), &r))
	require.True(t, r.Removed)
	require.Equal(t, api.MergeMerged, r.MergeStatus)
	_, there = d.agent("goes")
	require.False(t, there)
	require.NoDirExists(t, d.path("ws", ".polis", "worktrees", "goes"))
	require.Empty(t, git(t, d.bare(), "branch", "--list", "agent/goes"))
	require.Equal(t, "goes\n", git(t, d.bare(), "show", "main:goes.txt"))
	d.must("restore", "goes")

	require.NoError(t, json.Unmarshal([]byte(d.must("--json", "merge", "dirty", "--remove-after")), &r))
	require.Contains(t, r.Note, "agent dirty stays")
	_, there = d.agent("dirty")
	require.True(t, there)

	d.worker("task", "--remove-after")
	d.task("task", commitOf("task.txt", "task"))
	d.eventually("the task's agent is gone", func() bool { _, there := d.agent("task"); return !there })
	require.Equal(t, "task\n", git(t, d.bare(), "show", "main:task.txt"))
}

// TestPushesAreComparedWithTheRules: an agent's own push and a pull request are compared
// with its rules, as a merge is.
func TestPushesAreComparedWithTheRules(t *testing.T) {
	d := startDaemon(t, options{config: "[git]\nremote = \"push\"\n"})
	src := d.smallRepo()
	remote := d.path("remote.git")
	require.NoError(t, chownAll(src, 0))
	git(t, d.dir, "clone", "-q", "--bare", src, remote)
	require.NoError(t, chownAll(remote, owner))
	git(t, src, "remote", "add", "origin", remote)
	require.NoError(t, chownAll(src, owner))
	d.must("up", "--repo", src, d.path("ws"))
	d.add("alice", "--read", "**", "--write", "docs/**")
	push := func(script string) result {
		return d.exec("alice", "sh", "-ec", ident+"git fetch -q origin; git reset -q origin/main; rm -rf docs; mkdir -p docs; "+script)
	}
	r := push("b=$(echo evil | git hash-object -w --stdin); git update-index --add --cacheinfo 100644,$b,main.txt; git commit -qm evil; git push origin HEAD")
	require.NotZero(t, r.code)
	require.Contains(t, r.stderr, string(api.CodeUndeclaredWrite))
	e := d.refused(api.CodeUndeclaredWrite, "agents", "pr", "alice", "--accept-protected")
	require.Equal(t, []any{"main.txt"}, e.Details["paths"])
	r = push("git tag -f blob $(echo evil | git hash-object -w --stdin); git push origin blob")
	require.NotZero(t, r.code)
	require.Contains(t, r.stderr, "no such commit")
	r = push("echo x > docs/.envrc; git add docs; git commit -qm envrc; git push origin HEAD")
	require.NotZero(t, r.code)
	require.Contains(t, r.stderr, string(api.CodeProtectedPath))
	d.refused(api.CodeProtectedPath, "agents", "pr", "alice")
	require.Contains(t, d.must("agents", "pr", "alice", "--dry-run")+d.ctl("agents", "pr", "alice", "--dry-run").stderr, "docs/.envrc")
	require.Empty(t, git(t, remote, "branch", "--list", "agent/alice"))
	// A person may push it. Commits that the remote has are not judged again.
	d.must("agents", "pr", "alice", "--accept-protected")
	r = d.exec("alice", "sh", "-ec", ident+"git fetch -q origin; echo y > docs/y; git add docs; git commit -qm more; git push -q origin HEAD")
	require.Zero(t, r.code, r)
	r = push("echo z > docs/z; git add docs; git commit -qm fine; git push -q -f origin HEAD")
	require.Zero(t, r.code, r)
	// A branch without a common commit is compared as a whole.
	r = d.exec("alice", "sh", "-ec", ident+"git branch -f alone $(git commit-tree -m alone HEAD^{tree}); git push -f origin alone:refs/heads/agent/alice")
	require.NotZero(t, r.code)
	require.Contains(t, r.stderr, string(api.CodeUndeclaredWrite))
}
