package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// secretText is what the tests commit where an agent may not read it.
const secretText = "TOKEN=hunter2"

// withheldBed is a workspace with a file that alice and carol may not read, and
// bob may, and the id of that file.
func withheldBed(t *testing.T) (d *daemon, id string) {
	d = startDaemon(t, options{config: "[locks]\nhold = \"close\"\n"})
	project := d.up()
	d.write("ws/project/secret/key.txt", secretText+"\n")
	git(t, project, "add", ".")
	git(t, project, "-c", "user.name=u", "-c", "user.email=u@x", "commit", "-qm", "a secret")
	id = strings.TrimSpace(git(t, project, "rev-parse", "HEAD:secret/key.txt"))
	d.add("alice", "--deny", "secret/**")
	d.add("bob")
	return d, id
}

// No git command of an agent returns what its rules withhold.
func TestGitShowsNoFileThatIsWithheld(t *testing.T) {
	d, id := withheldBed(t)
	require.Contains(t, d.sh("bob", "git show HEAD:secret/key.txt"), secretText)
	for _, script := range []string{
		"git show HEAD:secret/key.txt",
		"git cat-file -p " + id,
		"git cat-file --batch-all-objects --batch",
		"git log -p --all",
		"git grep TOKEN HEAD",
		"git archive HEAD",
		"git archive HEAD secret",
		"git diff HEAD~1 HEAD",
		"git -c core.sparseCheckout=false checkout HEAD -- secret; cat secret/*",
		"export GIT_INDEX_FILE=$X/i; git read-tree HEAD; mkdir -p $X/out; git -c core.sparseCheckout=false --work-tree=$X/out checkout-index -fa; cat $X/out/secret/*",
		"git bundle create $X/b --all; cat $X/b | strings -n 5; git clone -q $X/b $X/c; cat $X/c/secret/*",
		"git clone -q . $X/clone; git clone -q --no-local . $X/clone2; cat $X/clone*/secret/*",
		"git fetch polis-withheld " + id + "; git cat-file -p FETCH_HEAD; git cat-file -p " + id,
		"find / -xdev -name " + id[2:] + " 2>/dev/null | xargs cat",
		"git -c remote.polis-withheld.promisor=false cat-file -p " + id,
		"env -u GIT_CONFIG_COUNT git cat-file -p " + id,
		// The id is in the tree: another path does not make it readable.
		"printf '100644 blob " + id + "\\tpublic.txt\\n' | git mktree --missing > $X/t; " + ident + "git update-ref refs/heads/agent/alice $(" + ident + "git commit-tree -m x -p HEAD $(cat $X/t)); git show agent/alice:public.txt",
		"git tag steal " + id + "; git cat-file -p steal",
		"git update-index --add --cacheinfo 100644," + id + ",public.txt; " + ident + "git commit -qm steal; git show HEAD:public.txt",
	} {
		r := d.exec("alice", "sh", "-c", "X=$(mktemp -d); "+script)
		require.NotContains(t, r.stdout+r.stderr, secretText, script)
		d.sh("alice", "git reset -q --hard")
	}
	r := d.exec("alice", "git", "show", "HEAD:secret/key.txt")
	require.NotZero(t, r.code)
	require.Contains(t, r.stderr, "your reading rules withhold secret/key.txt")
	require.Contains(t, d.must("agents", "why", "alice"), "secret/key.txt")
	require.Contains(t, d.must("agents", "why", "alice"), "\"public.txt\" is the file "+id, "why the ref was refused")
	// The rest is there.
	require.Equal(t, "one\ntwo\nthree\n", d.sh("alice", "git show HEAD:main.txt"))
	require.NotContains(t, git(t, d.bare(), "for-each-ref"), "steal")
}

// An agent with withheld files works as others do, and the files that it does not see stay
// unchanged.
func TestWorkContinuesBesideWithheldFiles(t *testing.T) {
	d, _ := withheldBed(t)
	bare := d.bare()
	d.sh("alice", ident+"echo alice >> main.txt; echo n > new.txt; git add -A; git commit -qm mine; test -z \"$(git status --porcelain)\"")
	// Another agent changes, adds and removes withheld files and others.
	d.sh("bob", ident+"echo 2 > secret/key.txt; echo 2 > secret/more.txt; mkdir -p secret/deep; echo 3 > secret/deep/er; echo b > bob.txt; git add -A; git commit -qm first")
	require.Contains(t, d.sh("alice", "git log --oneline agent/bob; git show agent/bob:bob.txt"), "first")
	d.sh("alice", "git merge -q -m merged agent/bob; test -z \"$(git status --porcelain)\"; cat bob.txt")
	d.sh("bob", "git rm -q secret/more.txt; echo 4 > secret/deep/er; git mv secret/key.txt secret/key2.txt; echo b2 > bob.txt; git add -A; git commit -qm second")
	d.must("merge", "bob")
	d.sh("alice", "git checkout -qb topic; echo t > topic.txt; git add .; git commit -qm topic; git rebase -q main; git checkout -q agent/alice; git merge -q -m again topic; git branch -D topic; echo u >> new.txt; git add -A; git commit -qm again")
	d.sh("alice", "git stash list; echo s >> main.txt; git stash -q; git stash pop -q; git checkout -q -- main.txt; git reset -q --hard; git gc -q || true; git diff HEAD~1 -- main.txt; git log -p -- main.txt new.txt bob.txt; git blame main.txt")
	require.Equal(t, "b2\n", d.sh("alice", "git status --porcelain; cat bob.txt"))
	d.must("merge", "alice")
	require.Equal(t, "4\n", git(t, bare, "show", "main:secret/deep/er"))
	require.Equal(t, "2\n", git(t, bare, "show", "main:secret/key2.txt"))
	require.Contains(t, git(t, bare, "show", "main:main.txt"), "alice")
	require.Empty(t, git(t, bare, "log", "--first-parent", "--no-merges", "--format=%s", "agent/alice", "--not", "agent/bob", "--", "secret"))
	// Its commits still exist, also after all branches were merged and polisd restarted.
	d.stop()
	d.start()
	require.Equal(t, "one\ntwo\nthree\nalice\nn\nu\n", d.sh("alice", "git fsck --connectivity-only >/dev/null; git show HEAD:main.txt HEAD:new.txt"))
	require.NotZero(t, d.exec("alice", "git", "show", "main:secret/key2.txt").code)
}

// Agents with the same rules share the objects that they may read. The objects of rules that no
// agent has any more are removed.
func TestObjectsOfTheSameRulesAreShared(t *testing.T) {
	d, _ := withheldBed(t)
	stores := func() []string { return glob(d.path("ws", ".polis", "filtered", "*")) }
	require.Len(t, stores(), 1)
	d.add("carol", "--deny", "secret/**")
	require.Len(t, stores(), 1)
	d.add("dave", "--hide", "secret/**", "--deny", "docs/**")
	require.Len(t, stores(), 2)
	made := strings.TrimSpace(d.sh("alice", ident+"echo made > a.txt; git add -A; git commit -qm a; git rev-parse HEAD:a.txt"))
	require.Equal(t, "made\n", d.sh("carol", "git show agent/alice:a.txt"))
	require.NotZero(t, d.exec("dave", "git", "show", "HEAD:docs/guide.md").code)
	require.Equal(t, "guide\n", d.sh("carol", "git show HEAD:docs/guide.md"))
	require.Contains(t, d.sh("alice", allObjects), made)
	d.must("agents", "remove", "dave", "--force")
	require.Len(t, stores(), 1)
	// New rules apply to objects from the next start.
	text := d.must("agents", "set", "carol", "--deny", "docs/**")
	require.Contains(t, text, "next start")
	require.Equal(t, "guide\n", d.sh("carol", "git show HEAD:docs/guide.md"))
	d.must("agents", "stop", "carol")
	d.must("agents", "start", "carol")
	require.NotZero(t, d.exec("carol", "git", "show", "HEAD:docs/guide.md").code)
	require.Equal(t, "one\ntwo\nthree\n", d.sh("carol", "git show HEAD:main.txt"))
	d.must("agents", "remove", "carol", "--force")
	d.must("agents", "remove", "alice", "--force")
	require.Empty(t, stores())
	d.must("restore", "alice")
	require.Equal(t, "made\n", d.sh("alice", "git show HEAD:a.txt"))
	require.NotZero(t, d.exec("alice", "git", "show", "HEAD:secret/key.txt").code)
}
