package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The daemon, the user and other agents write into the shared repository behind the view of every
// agent. A read, a listing, and a look-up that failed before must see the change at once.
func TestWhatIsWrittenBehindAViewIsSeenAtOnce(t *testing.T) {
	d := startDaemon(t, options{})
	project := d.up()
	d.add("alice")
	d.add("bob")
	bare := d.path("ws", ".polis", "bare-repo.git")
	const common = "cd $(git rev-parse --git-common-dir); "
	seen := func(script, want string) {
		t.Helper()
		require.Equal(t, want, strings.TrimSpace(d.sh("bob", script)), script)
	}
	warm := func() { // everything is known to the kernel, what is there and what is not
		d.sh("bob", "git log -1 main >/dev/null; git status --porcelain >/dev/null; "+common+
			"ls -lR refs worktrees >/dev/null; cat refs/heads/main HEAD >/dev/null 2>&1 || true; for f in refs/tags/one packed-refs refs/heads/agent/carol; do test -e $f || true; done")
	}

	t.Run("a merge", func(t *testing.T) {
		oid := strings.TrimSpace(d.sh("alice", ident+"echo a > a.txt; git add a.txt; git commit -qm of-alice; git rev-parse HEAD"))
		require.Contains(t, d.sh("bob", "git cat-file -t "+oid), "commit")
		warm()
		d.must("merge", "alice")
		seen("git rev-parse main", strings.TrimSpace(git(t, bare, "rev-parse", "main")))
		seen(common+"cat refs/heads/main", strings.TrimSpace(git(t, bare, "rev-parse", "main")))
		seen("git show main:a.txt", "a")
	})
	t.Run("the user's commit, with the next agent", func(t *testing.T) {
		git(t, project, "commit", "-q", "--allow-empty", "-m", "of-the-user")
		warm()
		d.add("carol")
		seen("git log -1 --format=%s main", "of-the-user")
		seen(common+"ls refs/heads/agent", "alice\nbob\ncarol")
		seen(common+"test -e refs/heads/agent/carol && echo there", "there")
	})
	t.Run("a tag where there was none, and one less", func(t *testing.T) {
		warm()
		seen("git rev-parse -q --verify refs/tags/one || echo none", "none")
		git(t, bare, "tag", "one", "main")
		seen(common+"cat refs/tags/one", strings.TrimSpace(git(t, bare, "rev-parse", "main")))
		seen(common+"ls refs/tags", "one")
		git(t, bare, "tag", "-d", "one")
		seen(common+"test -e refs/tags/one || echo none", "none")
		seen(common+"ls refs/tags", "")
	})
	t.Run("refs that are packed", func(t *testing.T) {
		warm()
		want := strings.TrimSpace(git(t, bare, "rev-parse", "main"))
		git(t, bare, "pack-refs", "--all")
		seen("git rev-parse main", want)
		seen(common+"test -e refs/heads/main || echo packed", "packed")
	})
	t.Run("files the agent may not read", func(t *testing.T) {
		d.sh("bob", "git ls-files -v main.txt >/dev/null")
		git(t, bare, "--git-dir="+bare+"/worktrees/bob", "--work-tree="+d.path("ws", ".polis", "worktrees", "bob"), "update-index", "--skip-worktree", "main.txt")
		seen("git ls-files -v main.txt", "S main.txt")
	})
	t.Run("an agent that is removed", func(t *testing.T) {
		warm()
		d.must("discard", "carol", "--yes")
		seen(common+"test -e refs/heads/agent/carol || echo none", "none")
		seen("git branch --list agent/carol", "")
	})
}
