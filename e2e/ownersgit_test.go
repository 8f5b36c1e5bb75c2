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
