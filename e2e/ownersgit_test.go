package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// homeOwner is an owner with a home; nobody has none.
const homeOwner = 4322

// ownersProject makes a project whose owner has a home with these files, and returns its path.
func (d *daemon) ownersProject(files map[string]string) string {
	d.t.Helper()
	repo := d.smallRepo()
	require.NoError(d.t, os.MkdirAll(d.path("home"), 0o755))
	for name, text := range files {
		require.NoError(d.t, os.MkdirAll(filepath.Dir(d.path("home", name)), 0o755))
		d.write(filepath.Join("home", name), text)
	}
	d.toOwner(d.path("home"), repo)
	return repo
}

func (d *daemon) toOwner(dirs ...string) {
	d.t.Helper()
	for _, dir := range dirs {
		require.NoError(d.t, filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(p, homeOwner, homeOwner))
		}))
	}
}

// Agents, merges and reverts have the identity that git has for the owner in the project, whatever file it is from.
// Nothing else of those files reaches agents.
func TestCommitsHaveTheIdentityOfTheOwnersGit(t *testing.T) {
	d := startDaemon(t, options{user: homeOwner})
	repo := d.ownersProject(map[string]string{
		".config/git/config": "[user]\n\tname = Ann\n\temail = ann@private.example\n[includeIf \"hasconfig:remote.*.url:https://corp.example/**\"]\n\tpath = corp\n[credential]\n\thelper = store --token hunter2\n",
		".config/git/corp":   "[author]\n\temail = ann@corp.example\n[committer]\n\tname = Ann at work\n\temail = work@corp.example\n[alias]\n\thunter2 = status\n",
	})
	git(t, repo, "config", "remote.origin.url", "https://corp.example/shop.git")
	d.toOwner(repo)
	d.must("up", "--repo", repo, d.path("ws"))
	d.add("alice")
	const want = "Ann <ann@corp.example>, Ann at work <work@corp.example>\n"
	const format = "--format=%an <%ae>, %cn <%ce>"
	require.Equal(t, want, d.sh("alice", "echo x > new.txt; git add -A; git commit -qm x; git log -1 '"+format+"'"))
	seen := d.sh("alice", "env; git config -l; cat ~/.gitconfig; ls -aR ~; cat /run/polis/gitconfig 2>/dev/null || true")
	require.NotContains(t, seen, "hunter2")
	require.NotContains(t, seen, "private")

	d.must("merge", "alice")
	require.Equal(t, want+"Merged-by: polis\nPolis-Agent: alice\n\n", git(t, repo, "log", "-1", format+"%n%(trailers)", "main"))
	d.must("revert", "alice")
	require.Equal(t, want+"Merged-by: polis\n\n", git(t, repo, "log", "-1", format+"%n%(trailers)", "main"))

	// It follows, and an agent's own is left alone.
	d.write("home/.config/git/corp", "[user]\n\temail = new@corp.example\n")
	d.must("agents", "stop", "alice")
	d.must("agents", "start", "alice")
	require.Equal(t, "Ann <new@corp.example>, Ann <new@corp.example>\n", d.sh("alice", "git commit -q --allow-empty -m y; git log -1 '"+format+"'"))
	d.sh("alice", "git config --global user.name Mine")
	d.must("agents", "stop", "alice")
	d.must("agents", "start", "alice")
	require.Equal(t, "Mine <new@corp.example>", strings.TrimSpace(d.sh("alice", "git commit -q --allow-empty -m z; git log -1 '--format=%an <%ae>'")))
}

// [merge] identity replaces the owner's.
func TestMergesHaveAConfiguredIdentity(t *testing.T) {
	d := startDaemon(t, options{user: homeOwner, config: "[merge.workspaces.ws.identity]\nname = \"Bot\"\nemail = \"bot@corp.example\"\n"})
	repo := d.ownersProject(map[string]string{".gitconfig": "[user]\n\tname = Ann\n\temail = ann@private.example\n"})
	d.must("up", "--repo", repo, d.path("ws"))
	d.add("alice")
	d.sh("alice", "echo x > new.txt; git add -A; git commit -qm x")
	d.must("merge", "alice")
	require.Equal(t, "Bot <bot@corp.example>, Bot <bot@corp.example>\nPolis-Agent: alice\n\n", git(t, repo, "log", "-1", "--format=%an <%ae>, %cn <%ce>%n%(trailers)", "main"))
	require.Equal(t, "Ann <ann@private.example>\n", git(t, repo, "log", "-1", "--format=%an <%ae>", "main^2"))
}

// What the owner's git ignores in the project is ignored in agents: by core.excludesFile, wherever that is, and by
// info/exclude. It follows when an agent or a task begins, and the agent's own rules count as well.
func TestAgentsIgnoreWhatTheOwnersGitIgnores(t *testing.T) {
	d := startDaemon(t, options{user: homeOwner})
	repo := d.ownersProject(map[string]string{".config/git/ignore": "# mine\n.idea/\n*.swp\n", ".gitconfig": "[user]\n\tname = Ann\n\temail = ann@x\n"})
	d.write("src/.git/info/exclude", "notes.local\n.env\n!keep.swp\n")
	d.write("src/.env", "OF=owner\n")
	d.toOwner(repo)
	d.must("up", "--repo", repo, d.path("ws"))
	d.worker("alice")
	const made = "mkdir -p .idea src/.idea; touch .idea/x src/.idea/y .a.swp notes.local src/notes.local"
	require.Empty(t, d.sh("alice", made+"; git status --porcelain --untracked-files=all; git add -A; git diff --cached --name-only"))
	require.Equal(t, "OF=owner\n", d.sh("alice", "cat .env"), "it is shown, because info/exclude ignores it")
	require.Equal(t, "?? keep.swp\n", d.sh("alice", "touch keep.swp; git status --porcelain; rm keep.swp"), "info/exclude takes precedence")
	require.Empty(t, d.sh("alice", "echo '*.own' > ~/own; git config --global core.excludesFile ~/own; touch x.own; echo '*.hook' >> $(git rev-parse --git-path info/exclude); touch x.hook; git status --porcelain"))
	require.NotContains(t, d.must("locks"), "notes.local", "no leases for ignored files")
	require.NotContains(t, d.sh("alice", "env; git config -l; ls -aR ~"), "mine")

	// It follows: at a start, and when a task begins.
	d.write("home/.config/git/ignore", "later\n")
	d.must("agents", "stop", "alice")
	d.must("agents", "start", "alice")
	require.Equal(t, "?? .a.swp\n?? .idea/\n?? src/.idea/\n", d.sh("alice", "touch later; git status --porcelain"))
	d.sh("alice", "rm -r .idea src/.idea .a.swp; sleep 0.1; git status")
	d.write("home/.config/git/ignore", "later\nstill later\n")
	d.must("agents", "run", "alice", "touch 'still later'; git status --porcelain > /tmp/seen")
	d.settled("alice")
	require.Empty(t, d.sh("alice", "cat /tmp/seen; git status --porcelain"))

	// Nothing of it counts as work, as if .gitignore ignored it. What only the agent ignores does.
	e := d.refused(api.CodeUnsavedWork, "agents", "remove", "alice")
	require.Contains(t, e.Message, "2 changed files")
	d.sh("alice", "rm x.own x.hook")
	d.must("agents", "remove", "alice")
}

// Branches, tags and remote-tracking refs that the project gets after up reach agents when an agent or a task begins: new, moved and
// deleted ones. Agents cannot change them, and what an agent has of its own stays.
func TestRefsOfTheProjectReachAgents(t *testing.T) {
	d := startDaemon(t, options{user: homeOwner})
	repo := d.ownersProject(map[string]string{".gitconfig": "[user]\n\tname = Ann\n\temail = ann@x\n"})
	remote := d.path("remote.git")
	at := func(dir string, args ...string) string { return strings.TrimSpace(git(t, dir, args...)) }
	git(t, d.dir, "init", "-q", "--bare", "-b", "main", remote)
	git(t, repo, "remote", "add", "origin", remote)
	git(t, repo, "push", "-q", "-u", "origin", "main")
	git(t, repo, "tag", "v0")
	d.toOwner(repo)
	d.must("up", "--repo", repo, d.path("ws"))
	d.worker("alice")

	// What exists from the first agent on.
	main := at(repo, "rev-parse", "main")
	require.Equal(t, main, strings.TrimSpace(d.sh("alice", "git rev-parse origin/main")))
	require.Equal(t, "origin/main\n", d.sh("alice", "git rev-parse --abbrev-ref '@{u}'; git rev-parse -q --verify main@{u} >/dev/null"))

	// Later: a commit that only other branches have.
	git(t, repo, "checkout", "-q", "-b", "hotfix")
	require.NoError(t, os.WriteFile(filepath.Join(repo, "fix.txt"), []byte("fixed\n"), 0o644))
	git(t, repo, "add", "fix.txt")
	git(t, repo, "commit", "-qm", "Fix")
	git(t, repo, "tag", "-a", "-m", "one", "v1")
	git(t, repo, "push", "-q", "origin", "hotfix:feature")
	git(t, repo, "fetch", "-q")
	git(t, repo, "remote", "set-head", "origin", "main")
	git(t, repo, "branch", "going")
	git(t, repo, "checkout", "-q", "main")
	d.toOwner(repo)
	fix := at(repo, "rev-parse", "hotfix")

	d.add("bob", "--branch", "hotfix")
	require.Equal(t, "fixed\n", d.sh("bob", "cat fix.txt"), "the branch of the project, not another one from main")
	d.add("carol", "--branch", "feature")
	require.Equal(t, "fixed\nfeature\n", d.sh("carol", "cat fix.txt; git branch --show-current"), "as git checkout: from the remote's")
	e := d.refused(api.CodeRefConflict, "agents", "add", "dave", "--base", "custom", "--branch", "origin/feature")
	require.Contains(t, e.Hint, "--branch feature")
	d.add("reader", "--read-only", "--at", "v1")
	require.Equal(t, "fixed\n", d.sh("reader", "cat fix.txt"))
	refs := d.sh("alice", "git for-each-ref --format='%(refname) %(objectname) %(symref)' refs/heads/hotfix refs/tags refs/remotes")
	for _, want := range []string{"refs/heads/hotfix " + fix, "refs/tags/v0 " + main, "refs/tags/v1 ", "refs/remotes/origin/feature " + fix, "refs/remotes/origin/HEAD " + main + " refs/remotes/origin/main"} {
		require.Contains(t, refs, want)
	}
	require.NotContains(t, refs, "polis")
	for _, change := range []string{"git branch -f going main", "git branch -D going", "git tag -f v1 main", "git tag -d v1", "git update-ref refs/remotes/origin/main " + fix, "git update-ref -d refs/remotes/origin/feature"} {
		require.NotZero(t, d.exec("alice", "sh", "-c", change).code, change)
	}

	// Moved and deleted ones follow when a task begins; what agents have of their own stays.
	d.sh("alice", "git branch mine; git tag own")
	d.sh("bob", "echo more > more.txt; git add -A; git commit -qm More")
	git(t, repo, "branch", "-D", "going")
	git(t, repo, "tag", "-f", "v0", "hotfix")
	git(t, repo, "tag", "-d", "v1")
	git(t, repo, "branch", "mine", "hotfix")
	git(t, repo, "branch", "-f", "hotfix", "main")
	d.toOwner(repo)
	own := d.sh("bob", "git rev-parse hotfix")
	d.must("agents", "run", "alice", "git for-each-ref --format='%(refname) %(objectname)' > /tmp/refs")
	d.settled("alice")
	refs = d.sh("alice", "cat /tmp/refs")
	require.Contains(t, refs, "refs/tags/v0 "+fix)
	require.Contains(t, refs, "refs/tags/own "+main)
	require.Contains(t, refs, "refs/heads/mine "+main)
	require.Contains(t, refs, "refs/heads/hotfix "+own)
	require.NotContains(t, refs, "refs/heads/going")
	require.NotContains(t, refs, "refs/tags/v1")
	events := d.must("events")
	require.Contains(t, events, "heads/mine: agent alice has one of its own")
	require.Contains(t, events, "heads/hotfix: agent bob has it checked out")
	d.refused(api.CodeRefConflict, "agents", "add", "erin", "--base", "custom", "--branch", "mine") // alice's
	d.sh("alice", "git log --all --oneline >/dev/null; git fsck --no-dangling")
}

// What an agent's rules withhold stays withheld in the refs that the project gets later.
func TestRefsOfTheProjectBringNothingWithheld(t *testing.T) {
	d := startDaemon(t, options{user: homeOwner})
	repo := d.ownersProject(nil)
	d.must("up", "--repo", repo, d.path("ws"))
	d.worker("alice", "--deny", "secret/")
	git(t, repo, "checkout", "-q", "-b", "later")
	require.NoError(t, os.WriteFile(filepath.Join(repo, "secret", "new.txt"), []byte("hunter2\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(repo, "open.txt"), []byte("open\n"), 0o644))
	git(t, repo, "add", "secret/new.txt", "open.txt")
	git(t, repo, "commit", "-qm", "Later")
	git(t, repo, "update-ref", "refs/remotes/origin/later", "HEAD")
	git(t, repo, "checkout", "-q", "main")
	d.toOwner(repo)
	d.must("agents", "run", "alice", "git show later:open.txt origin/later:open.txt > /tmp/seen; git cat-file -p later:secret/new.txt origin/later:secret/new.txt >> /tmp/seen 2>&1; git log -p --all >> /tmp/seen 2>&1; true")
	d.settled("alice")
	seen := d.sh("alice", "cat /tmp/seen")
	require.True(t, strings.HasPrefix(seen, "open\nopen\n"), seen)
	require.NotContains(t, seen, "hunter2")
}

// The refusals of a branch that the project has otherwise, and that several remotes have, end by what their hints say.
func TestABranchThatIsNotTheProjectsIsRefused(t *testing.T) {
	d := startDaemon(t, options{user: homeOwner})
	repo := d.ownersProject(nil)
	d.must("up", "--repo", repo, d.path("ws"))
	d.add("alice", "--branch", "topic")
	d.sh("alice", "echo x > x.txt; git add -A; git -c user.name=a -c user.email=a@x commit -qm x")
	d.must("agents", "remove", "alice", "--force")
	bare := d.path("ws", ".polis", "bare-repo.git")
	git(t, bare, "update-ref", "refs/heads/topic", "main") // as if work was left there
	git(t, bare, "update-ref", "refs/heads/topic", strings.TrimSpace(git(t, bare, "commit-tree", "-m", "left", "-p", "main", "main^{tree}")))
	git(t, repo, "commit", "-q", "--allow-empty", "-m", "of the project")
	git(t, repo, "branch", "topic")
	git(t, repo, "reset", "-q", "--hard", "HEAD^")
	git(t, repo, "update-ref", "refs/remotes/a/both", "topic")
	git(t, repo, "update-ref", "refs/remotes/b/both", "topic")
	d.toOwner(repo, filepath.Join(bare, "refs"), filepath.Join(bare, "objects"), filepath.Join(bare, "logs")) // the configuration is root's

	add := func(name, branch string) []string {
		return []string{"agents", "add", name, "--base", "custom", "--branch", branch}
	}
	e := d.refused(api.CodeRefConflict, add("bob", "topic")...)
	require.Equal(t, "name another branch, or rename the project's: git -C "+repo+" branch -m topic NEW", e.Hint)
	git(t, repo, "branch", "-m", "topic", "theirs")
	d.must(add("bob", "theirs")...)
	require.Equal(t, "of the project\n", d.sh("bob", "git log -1 --format=%s"))

	e = d.refused(api.CodeRefConflict, add("carol", "both")...)
	require.Equal(t, "choose one in the project: git -C "+repo+" branch both a/both", e.Hint)
	git(t, repo, "branch", "both", "a/both")
	d.toOwner(repo)
	d.must(add("carol", "both")...)
	require.Equal(t, "of the project\n", d.sh("carol", "git log -1 --format=%s"))

	e = d.refused(api.CodeRefConflict, add("dave", "a/both")...)
	require.Equal(t, "--branch both begins a branch of that name there", e.Hint)
}
