package gitdir

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What no ref leads to is seen by the agent that has it, and by no other.
func TestObjectsAreTheAgentsOwnUntilARefLeadsToThem(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			r := newRepo(t, format)
			t1, m1, _ := r.agent("a1")
			t2, _, g2 := r.agent("a2")
			const all = "git cat-file --batch-all-objects --batch-check"
			var secrets []string
			secret := func(id string) string { secrets = append(secrets, id); return id }
			alone := func(when string) {
				t.Helper()
				mine, others := r.must(t1, all), r.must(t2, all)
				for _, id := range secrets {
					require.Contains(t, mine, id, when)
					require.NotContains(t, others, id, when)
					_, err := run(t, t2, "git", "cat-file", "-e", id)
					require.Error(t, err, when)
					_, err = run(t, r.bare, "git", "cat-file", "-e", id)
					require.Error(t, err, when)
				}
			}
			secret(r.must(t1, "echo TOKEN > .env && git add -f .env && git rev-parse :.env"))
			alone("added")
			r.must(t1, "echo wip >> f && git stash -q && git reset -q --hard")
			secret(r.must(t1, "git rev-parse stash"))
			alone("stashed")
			r.must(t1, "git checkout -q --detach && echo d > d && git add d && git commit -qm detached")
			secret(r.must(t1, "git rev-parse HEAD"))
			alone("committed without a branch")

			// Once a ref leads there, everybody has all of it, and nothing else.
			r.must(t1, "git checkout -q agent/a1 && echo new > n && git add n && git commit -qm n")
			for _, rev := range []string{"agent/a1", "agent/a1^{tree}", "agent/a1:n"} {
				id := r.must(t1, "git rev-parse "+rev)
				require.Equal(t, id, r.must(t2, "git rev-parse "+rev+" && git cat-file -e "+id))
				require.NoFileExists(t, filepath.Join(r.dir, "a1.private/objects", id[:2], id[2:]), "it moved")
			}
			alone("committed something else")
			r.must(t1, "git branch kept "+secrets[2])
			require.Equal(t, secrets[2], r.must(t2, "git rev-parse kept"))
			secrets = secrets[:2]
			alone("a branch was made of a commit")

			// A branch of another agent's commits needs nothing of its own.
			r.must(t2, "git branch theirs agent/a1 && git merge -q --ff-only agent/a1 && git tag -am t both")
			require.Contains(t, g2.Owned(), "refs/tags/both")
			r.must(t1, "git show both >/dev/null && git fsck --full --strict && git stash pop -q")
			for _, dir := range []string{t2, r.bare} {
				r.must(dir, "git fsck --full --strict")
			}
			require.Empty(t, r.refused())

			// Where an agent's git finds the others' objects is not its to say: git of
			// the daemon reads that, too.
			for _, line := range []string{"echo /tmp > objects/info/alternates", "rm -f objects/info/alternates", "mv objects/info objects/x", "ln -s /tmp objects/ab", "rm -rf objects/info"} {
				out, err := run(t, m1, "sh", "-c", "set -e; "+line)
				require.Error(t, err, "%s %s", line, out)
			}
			require.Equal(t, filepath.Join(r.bare, "objects"), strings.TrimSpace(r.must(m1, "cat objects/info/alternates")))
		})
	}
}

// git writes a log before it moves the ref: who reads that has what it names, also
// if git died in between.
func TestALogNamesOnlyWhatIsPublished(t *testing.T) {
	for _, log := range []string{"logs/refs/heads/agent/a1", "worktrees/a1/logs/HEAD"} {
		r := newRepo(t, "sha1")
		t1, m1, _ := r.agent("a1")
		commit := r.must(t1, "git commit-tree -p HEAD -m next HEAD^{tree}")
		_, err := run(t, r.bare, "git", "cat-file", "-e", commit)
		require.Error(t, err, "no ref leads to it")
		line := strings.Repeat("0", 40) + " " + commit + " a <a@b> 1 +0000\tx"
		r.must(m1, "mkdir -p $(dirname "+log+"); echo "+commit+" > refs/heads/agent/a1.lock && echo '"+line+"' >> "+log)
		r.must(r.bare, "git cat-file -e "+commit+" && git fsck --full --strict")
		r.must(m1, "mv refs/heads/agent/a1.lock refs/heads/agent/a1")
		require.Equal(t, commit, r.must(t1, "git rev-parse agent/a1"))
	}
}

// A pack is moved as it is if a ref leads to all of it, and only what a ref leads to
// is taken from another.
func TestPacksAreTheAgentsOwnUntilARefLeadsToThem(t *testing.T) {
	r := newRepo(t, "sha1")
	donor, _ := r.donor("sha1")
	t1, _, _ := r.agent("a1")
	t2, _, _ := r.agent("a2")
	packs := func(dir string) int {
		p, err := filepath.Glob(filepath.Join(dir, "pack/*.pack"))
		require.NoError(t, err)
		return len(p)
	}
	own, shared := filepath.Join(r.dir, "a1.private/objects"), filepath.Join(r.bare, "objects")
	before := packs(shared)
	r.must(t1, "git config transfer.unpackLimit 1; git fetch -q "+donor+" trunk")
	require.Equal(t, 1, packs(own), "a fetch without a ref")
	require.Equal(t, before, packs(shared))
	first := r.must(t1, "git rev-parse FETCH_HEAD~4")
	_, err := run(t, t2, "git", "cat-file", "-e", first)
	require.Error(t, err)
	r.must(t1, "git branch first "+first)
	last := r.must(t1, "git rev-parse FETCH_HEAD")
	r.must(t2, "git log --oneline first && git fsck --full")
	_, err = run(t, t2, "git", "cat-file", "-e", last)
	require.Error(t, err, "no ref leads to it")
	r.must(t1, fmt.Sprintf("git branch last %s && git fsck --full", last))
	r.must(t2, "git log --oneline last && git fsck --full --strict")
	r.must(t1, "git checkout -q --detach "+first+" && git branch -D first last && git fetch -q "+donor+" 'refs/tags/v9:refs/tags/v9'")
	r.must(r.bare, "git fsck --full --strict")
}

// TestWhatIsPublishedFromAQuarantineHasOneName: a second name or an open descriptor would change the object later.
func TestWhatIsPublishedFromAQuarantineHasOneName(t *testing.T) {
	r := newRepo(t, "sha1")
	tree, m, _ := r.agent("a1")
	id := r.must(tree, "echo pushed | git hash-object -w --stdin")
	id = id[:40]
	object := "objects/" + id[:2] + "/" + id[2:]
	q := "objects/tmp_objdir-incoming-1"
	r.must(m, "mkdir "+q+" && cat "+object+" >"+q+"/o && cat "+object+" >hooks/o && rm -f "+object)
	for what, line := range map[string]string{
		"a second name there":        "ln " + q + "/o " + q + "/p",
		"a second name elsewhere":    "ln " + q + "/o hooks/p",
		"a name of another file":     "ln hooks/o " + q + "/p",
		"a file from elsewhere":      "mv hooks/o " + q + "/p",
		"another name of itself":     "mv " + q + " objects/tmp_objdir-2",
		"a directory from elsewhere": "mkdir hooks/d && mv -T hooks/d objects/tmp_objdir-3",
		"another content":            "echo x >" + q + "/x && mkdir -p objects/" + id[:2] + " && mv " + q + "/x " + object,
		"open for writing":           "exec 3>>" + q + "/o; mkdir -p objects/" + id[:2] + "; mv -n " + q + "/o " + object + " && test -e " + object,
	} {
		_, err := run(t, m, "sh", "-c", "set -e; "+line)
		require.Error(t, err, what)
	}
	r.must(m, "mv "+q+"/o "+object+"; ! echo x >>"+object)
	require.Equal(t, "pushed", r.must(tree, "git cat-file -p "+id))
	// A pack with two temporary names would stay writable.
	r.must(m, "cat "+object+" >objects/tmp_obj_1 && rm -f "+object+" && ln objects/tmp_obj_1 "+object)
	for _, to := range []string{"objects/pack/tmp_pack_1", "objects/tmp_obj_2"} {
		_, err := run(t, m, "sh", "-c", "mv objects/tmp_obj_1 "+to+" && echo x >>"+to)
		require.Error(t, err, to)
	}
	require.Equal(t, "pushed", r.must(tree, "git cat-file -p "+id))
}
