package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each way in which an agent goes leaves its binaries where they can be fetched again.
func TestLFSObjectsOutliveEachRemoval(t *testing.T) {
	d := startDaemon(t, options{})
	project, objects := d.withLFS()
	d.must("up", "--repo", project, d.path("ws"))
	inProject := func(content string) {
		t.Helper()
		require.Equal(t, content, readFile(filepath.Join(objects, object(content))))
		require.EqualValues(t, owner, statOf(t, filepath.Join(objects, object(content))).Uid)
	}

	// discard throws the work away: what is only in it is in the trash, committed and staged.
	d.add("alice")
	d.installs("alice")
	d.sh("alice", "echo one > one.bin; git add one.bin; git commit -qm one; echo two > two.bin; git add two.bin")
	d.must("discard", "alice", "--yes")
	_, there := d.agent("alice")
	require.False(t, there)
	d.must("restore", "alice")
	d.must("agents", "start", "alice")
	d.installs("alice")
	require.Equal(t, "one\ntwo\n", d.sh("alice", "rm one.bin two.bin; git checkout -q one.bin two.bin; cat one.bin two.bin"))

	// A merge with --remove-after brings what is merged home, and keeps the agent while it has more.
	d.sh("alice", "git commit -qm two; echo three > three.bin; git add three.bin")
	require.Contains(t, d.ctl("merge", "alice", "--remove-after").String(), "alice")
	inProject("one\n")
	inProject("two\n")
	_, there = d.agent("alice")
	require.True(t, there, "it has a binary that is in no commit")
	d.sh("alice", "git commit -qm three")
	d.must("merge", "alice", "--remove-after")
	_, there = d.agent("alice")
	require.False(t, there)
	inProject("three\n")

	// So do an agent with --remove-after, and an ephemeral one that the patrol removes.
	gone := func(name string) {
		t.Helper()
		d.eventually(name+" is removed", func() bool { d.patrol(); _, there := d.agent(name); return !there })
	}
	d.worker("bob", "--remove-after")
	d.installs("bob")
	d.task("bob", "echo bob > bob.bin; git add bob.bin; git commit -qm bob")
	gone("bob")
	inProject("bob\n")
	d.temp("carol")
	d.installs("carol")
	d.task("carol", "echo carol > carol.bin; git add carol.bin; git commit -qm carol")
	gone("carol")
	inProject("carol\n")

	// A new agent, and the owner's git, have them all without a network.
	d.add("dora")
	d.installs("dora")
	const all = "one\ntwo\nthree\nbob\ncarol\n"
	require.Equal(t, all, d.sh("dora", "rm -f *.bin; git checkout -q .; cat one.bin two.bin three.bin bob.bin carol.bin"))
	// It has only read them, and has no objects of its own: it can go. git compares the content of files that were touched.
	d.sh("dora", "touch *.bin")
	d.must("agents", "remove", "dora")

	// The checkout of the owner, whose git has no filter here, has the pointers: each names an object that is there.
	for _, name := range []string{"one", "two", "three", "bob", "carol"} {
		require.Contains(t, git(t, project, "show", "refs/remotes/polis/main:"+name+".bin"), "oid sha256:"+filepath.Base(object(name+"\n")))
	}
}

// The keys of git-crypt are secrets: no agent sees those of the project or of another agent, and polis copies them nowhere.
func TestGitCryptKeysAreNeverShown(t *testing.T) {
	const projects, agents = "GITCRYPTKEY-of-the-project", "GITCRYPTKEY-of-the-agent"
	d := startDaemon(t, options{})
	repo := d.smallRepo()
	require.NoError(t, chownAll(repo, 0))
	plant := func(dir string) {
		t.Helper()
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "git-crypt", "keys"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "git-crypt", "keys", "default"), []byte(projects), 0o644)) // a careless owner: everyone can read it
	}
	plant(filepath.Join(repo, ".git"))
	d.giveAway(repo)
	d.must("up", "--repo", repo, d.path("ws"))
	d.add("alice")
	d.add("bob", "--deny", "docs/**")
	const search = `grep -rls GITCRYPTKEY "$PWD" "$(git rev-parse --git-common-dir)" "$(git rev-parse --git-dir)" "$HOME" /run/polis /tmp "$(dirname "$(git rev-parse --git-common-dir)")" || true
find / -xdev -path /proc -prune -o -name git-crypt -print 2>/dev/null || true
cat .git/git-crypt/keys/default "$(git rev-parse --git-common-dir)/git-crypt/keys/default" 2>/dev/null || true`
	none := func(names ...string) {
		t.Helper()
		for _, name := range names {
			require.Empty(t, d.sh(name, search), name)
		}
	}
	none("alice", "bob")
	d.sh("alice", ident+commitOf("a.txt", "alice"))
	d.must("merge", "alice")
	none("alice", "bob")

	// Keys that an agent makes are its own, and go with it.
	d.sh("alice", ident+"k=$(git rev-parse --git-common-dir)/git-crypt/keys; mkdir -p $k; echo "+agents+" >$k/default; echo work >work.txt; git add work.txt; git commit -qm work; echo more >more.txt")
	none("bob")
	d.fork("alice", "second")
	none("second")
	d.must("agents", "remove", "alice", "--force")
	kept := func() []string {
		var found []string
		require.NoError(t, filepath.WalkDir(d.path("ws", ".polis"), func(path string, e os.DirEntry, err error) error {
			if err == nil && e.Name() == "git-crypt" {
				found = append(found, path)
			}
			return nil
		}))
		return found
	}
	require.Empty(t, kept())
	d.must("restore", "alice")
	d.must("agents", "start", "alice")
	require.Equal(t, "more\n", d.sh("alice", "cat more.txt"))
	none("alice", "second")
	require.Empty(t, kept())
	require.Equal(t, projects, readFile(filepath.Join(repo, ".git", "git-crypt", "keys", "default")))
}
