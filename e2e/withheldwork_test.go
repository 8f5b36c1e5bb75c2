package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// Withheld objects stay withheld over a remote, in both directions, and the others arrive.
func TestRemotesWithWithheldFiles(t *testing.T) {
	d := startDaemon(t, options{config: "[git]\nremote = \"push\"\n[locks]\nhold = \"close\"\n"})
	src := d.smallRepo()
	require.NoError(t, chownAll(src, 0))
	remote := d.path("remote.git")
	git(t, d.dir, "clone", "-q", "--bare", src, remote)
	other := d.path("other")
	git(t, d.dir, "clone", "-q", remote, other)
	git(t, other, "checkout", "-qb", "news")
	d.write("other/secret/token.txt", secretText+"\n")
	d.write("other/news.txt", "news\n")
	git(t, other, "add", "-A")
	git(t, other, "-c", "user.name=u", "-c", "user.email=u@x", "commit", "-qm", "news")
	git(t, other, "push", "-q", "origin", "news")
	require.NoError(t, chownAll(remote, owner))
	git(t, src, "remote", "add", "origin", remote)
	require.NoError(t, chownAll(src, owner))
	d.must("up", "--repo", src, d.path("ws"))
	d.add("alice", "--deny", "secret/**")
	require.Equal(t, "news\n", d.sh("alice", "git fetch -q origin; git show origin/news:news.txt"))
	r := d.exec("alice", "git", "show", "origin/news:secret/token.txt")
	require.NotZero(t, r.code)
	require.Contains(t, r.stderr, "withhold secret/token.txt")
	d.sh("alice", ident+"echo a > a.txt; git add -A; git commit -qm a; git push -q origin HEAD; git merge -q origin/news; test -z \"$(git status --porcelain)\"")
	require.NoError(t, chownAll(remote, 0))
	require.Equal(t, "a\n", git(t, remote, "show", "agent/alice:a.txt"))
	require.Equal(t, "secret\n", git(t, remote, "show", "agent/alice:secret/key.txt"))
	require.NoError(t, chownAll(remote, owner))
	d.sh("alice", "git fetch -q --all; git pull -q origin news")
	require.NotContains(t, d.exec("alice", "git", "cat-file", "--batch-all-objects", "--batch").stdout, secretText)
}

// A merge that must read a withheld file fails, names the file, and changes nothing.
func TestAConflictInAWithheldFileIsRefused(t *testing.T) {
	d, _ := withheldBed(t)
	d.add("carol")
	d.sh("bob", ident+"echo b >> secret/key.txt; git commit -qam b")
	d.sh("carol", ident+"echo c >> secret/key.txt; git commit -qam c")
	before := d.sh("alice", ident+"git merge -q agent/bob; git rev-parse HEAD")
	r := d.exec("alice", "git", "merge", "agent/carol")
	require.NotZero(t, r.code)
	require.Contains(t, r.stderr, "your reading rules withhold secret/key.txt")
	require.Equal(t, before, d.sh("alice", "git rev-parse HEAD; git status --porcelain"))
	// Names of withheld files that look like renames are no reason to fail.
	d.sh("bob", ident+"git mv secret/key.txt secret/moved.txt; echo more >> secret/moved.txt; cp main.txt other.txt; echo x >> other.txt; git add -A; git commit -qm moved")
	d.sh("alice", "echo mine > mine.txt; git add -A; git commit -qm mine; git -c merge.renames=false merge -q agent/bob; test -z \"$(git status --porcelain)\"")
}

// At whatever step polisd died, an agent is added with exactly the objects that it may read.
func TestPolisdDiesWhileObjectsAreFiltered(t *testing.T) {
	d := startDaemon(t, options{failpoints: true})
	d.up()
	for i, step := range []string{"filter:packed", "filter:built"} {
		name := []string{"alice", "bob"}[i]
		d.dieAt(step, func() result {
			return d.ctl("agents", "add", name, "--base", "custom", "--deny", "secret/**", "--deny", name)
		})
		require.Empty(t, d.report().Errors, step)
		if _, ok := d.agent(name); !ok {
			d.add(name, "--deny", "secret/**", "--deny", name)
		}
		d.must("agents", "start", name)
		require.Equal(t, "guide\n", d.sh(name, "git show HEAD:docs/guide.md"))
		require.NotZero(t, d.exec(name, "git", "show", "HEAD:secret/key.txt").code)
		require.Empty(t, glob(d.path("ws", ".polis", "filtered", ".new-*")), step)
	}
	// And while it is brought up to what another agent did.
	d.add("carol")
	made := func(text string) { d.sh("carol", ident+"echo "+text+" > c.txt; git add -A; git commit -qm "+text) }
	made("one")
	d.dieAt("filter:packed", func() result { return d.exec("alice", "git", "show", "agent/carol:c.txt") })
	require.Equal(t, "one\n", d.sh("alice", "git show agent/carol:c.txt"))
	made("two")
	require.Equal(t, "two\n", d.sh("alice", "git show agent/carol:c.txt"))
	packs, err := filepath.Glob(d.path("ws", ".polis", "filtered", "*", "objects", "pack", "*.idx"))
	require.NoError(t, err)
	git(t, d.bare(), append([]string{"verify-pack"}, packs...)...)
}

// What an agent has published stays its own, also when the shared objects are
// packed again, and later rules apply from its next start.
func TestRulesForReadingThatComeLater(t *testing.T) {
	d, id := withheldBed(t)
	text := d.must("agents", "set", "bob", "--deny", "secret/**")
	require.Contains(t, text, "next start")
	d.sh("bob", ident+"echo b > b.txt; git add b.txt; git commit -qm b; git cat-file -e "+id)
	d.must("agents", "stop", "bob")
	d.must("agents", "start", "--program", "bob")
	require.NotZero(t, d.exec("bob", "git", "cat-file", "-p", id).code)
	d.sh("bob", ident+"echo c > c.txt; git add -A; git commit -qm c; test -z \"$(git status --porcelain)\"")
	d.must("maintenance", "--now")
	require.Equal(t, "b\nc\n", d.sh("bob", "git gc -q || true; git show HEAD:b.txt HEAD:c.txt"))
	require.Equal(t, "c\n", d.sh("alice", "git show agent/bob:c.txt"))
	require.Contains(t, strings.Join(glob(d.path("ws", ".polis", "filtered", "*")), " "), "filtered/")
}

// What an agent named and could not read does not come back to it as a file when its
// work is restored.
func TestRestoredWorkHasNoWithheldFileElsewhere(t *testing.T) {
	d, id := withheldBed(t)
	d.add("carol", "--deny", "secret/**")
	d.sh("alice", "git update-index --add --cacheinfo 100644,"+id+",public.txt; echo w > work.txt; git add work.txt")
	d.sh("carol", ident+"git merge -q main; echo w > work.txt; git add -A; echo s >> main.txt; git stash -q; echo more > more.txt")
	for _, name := range []string{"alice", "carol"} {
		d.must("agents", "remove", name, "--force")
	}
	e := d.refused(api.CodeUndeclaredRead, "restore", "alice")
	require.Contains(t, e.Message, "public.txt")
	_, command, ok := strings.Cut(e.Hint, "take from it what you want: ")
	require.True(t, ok, e.Hint)
	out, err := exec.Command("sh", "-c", command+":work.txt").CombinedOutput()
	require.NoError(t, err, "%s: %s", command, out)
	require.Equal(t, "w\n", string(out))
	_, there := d.agent("alice")
	require.False(t, there)
	d.must("restore", "carol")
	require.Equal(t, "more\n", d.sh("carol", "cat more.txt; ! git show HEAD:secret/key.txt"))
}
