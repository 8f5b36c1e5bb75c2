package gitdir

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a commit costs is counted: each request is a way to the server and back.
// The least of several, for on a busy machine what came with a name may have
// run out before it is used.
func TestACommitNeedsFewRequests(t *testing.T) {
	r := newRepo(t, "sha1")
	tree, _, _ := r.agent("a1")
	change := "for i in 1 2 3 4 5 6 7 8 9 10; do mkdir -p d$i; echo %d$i >d$i/f; done; git add ."
	r.must(tree, fmt.Sprintf(change, 0)+" && git commit -qm 0")
	time.Sleep(2100 * time.Millisecond) // what was just made is looked up more often
	least := map[string]uint64{}
	for i := range 6 {
		r.must(tree, fmt.Sprintf(change, i+1))
		before := r.views["a1"].Requests()
		r.must(tree, "git commit -qm more")
		all := uint64(0)
		now := r.views["a1"].Requests()
		for op, n := range now {
			now[op] = n - before[op]
			all += now[op]
		}
		now["all"] = all
		for op, n := range now {
			if old, ok := least[op]; !ok || n < old {
				least[op] = n
			}
		}
	}
	t.Log(least)
	// 12 objects are made, in directories that are new, with git 2.39.
	for op, most := range map[string]uint64{"GETATTR": 80, "LOOKUP": 190, "CREATE": 20, "LINK": 0, "UNLINK": 4, "RENAME": 18, "GETXATTR": 0, "all": 410} {
		require.LessOrEqual(t, least[op], most, op)
	}
}

// Directories of objects go when maintenance packs what is in them. Who knew
// them finds that out, with every call git makes.
func TestMaintenanceTakesDirectoriesOfObjectsAway(t *testing.T) {
	r := newRepo(t, "sha1")
	t1, m1, _ := r.agent("a1")
	t2, m2, _ := r.agent("a2")
	for i := range 3 {
		r.must(t1, fmt.Sprintf("echo %d >f && git commit -qam %d", i, i))
		for _, m := range []string{m1, m2} {
			dirs, err := filepath.Glob(filepath.Join(m, "objects/[0-9a-f][0-9a-f]"))
			require.NoError(t, err)
			for _, d := range dirs { // known by name from here on
				_, err := os.Stat(filepath.Join(d, strings.Repeat("0", 38)))
				require.ErrorIs(t, err, os.ErrNotExist)
			}
		}
		r.must(r.bare, "git repack -adq && git prune-packed && find objects -mindepth 1 -maxdepth 1 -empty -name '[0-9a-f][0-9a-f]' -delete")
		// The agents' own go, too.
		for _, a := range []string{"a1", "a2"} {
			r.must(r.dir, "find "+a+".private/objects -mindepth 1 -type f -path '*/objects/??/*' -delete -o -mindepth 1 -maxdepth 1 -type d -empty -name '[0-9a-f][0-9a-f]' -delete")
		}
		gone, err := filepath.Glob(filepath.Join(r.dir, "a?.private/objects/[0-9a-f][0-9a-f]"))
		require.NoError(t, err)
		if i > 0 {
			require.NotEmpty(t, r.must(r.dir, "ls -d a1.mnt/objects"))
		}
		for _, d := range gone {
			_, err := os.ReadDir(d)
			require.NoError(t, err)
		}
		// Another agent makes the same objects, and with them the directories again.
		for _, tree := range []string{t2, t1} {
			r.must(tree, fmt.Sprintf("for n in $(seq 12); do echo %d-$n | git hash-object -w --stdin; done >/dev/null", i))
			r.must(tree, fmt.Sprintf("for n in $(seq 12); do git cat-file -e $(echo %d-$n | git hash-object --stdin); done", i))
		}
		for _, tree := range []string{t1, t2} {
			r.must(tree, "git fsck --full --strict && git log --oneline -3")
		}
	}
	require.Empty(t, r.refused())
}

// The directory of all agents' branches is removed when maintenance packs the last of them, and
// comes back with the next commit of any agent.
func TestMaintenanceTakesTheDirectoryOfBranchesAway(t *testing.T) {
	r := newRepo(t, "sha1")
	t1, m1, _ := r.agent("a1")
	t2, m2, _ := r.agent("a2")
	heads := map[string]string{}
	for i := range 6 {
		for _, tree := range []string{t1, t2} {
			r.must(tree, fmt.Sprintf("echo %d >f && git commit -qam %d && git status", i, i))
			heads[tree] = r.must(tree, "git rev-parse HEAD")
		}
		r.must(r.bare, "git pack-refs --all --prune")
		require.NoDirExists(t, filepath.Join(r.bare, "refs/heads/agent"))
		order := []string{t1, t2}
		if i%2 == 1 {
			order = []string{t2, t1}
		}
		for _, tree := range order {
			require.Equal(t, heads[tree], r.must(tree, "git rev-parse HEAD"))
			switch i % 3 {
			case 0:
				r.must(tree, fmt.Sprintf("git branch -f other-$(basename $PWD) HEAD && git commit -q --allow-empty -m 'more %d'", i))
			case 1: // another makes it meanwhile
				require.NoError(t, os.MkdirAll(filepath.Join(r.bare, "refs/heads/agent"), 0o777))
				require.NoError(t, os.Chmod(filepath.Join(r.bare, "refs/heads/agent"), 0o777))
				r.must(tree, "git commit -q --allow-empty -m more")
			}
		}
		for _, m := range []string{m1, m2} {
			_, err := os.ReadDir(filepath.Join(m, "refs/heads/agent"))
			_, raw := os.Stat(filepath.Join(r.bare, "refs/heads/agent"))
			require.Equal(t, raw == nil, err == nil, "%v", err)
		}
	}
	for _, tree := range []string{t1, t2} {
		r.must(tree, "git fsck --full --strict && git log --oneline -3")
	}
	require.Empty(t, r.refused())
}

// Permissions that the daemon removes from a directory all agents share are removed for those who
// know it; through a view they cannot be changed.
func TestRightsOfSharedDirectoriesAreTheDaemons(t *testing.T) {
	r := newRepo(t, "sha1")
	t1, m1, _ := r.agent("a1")
	_, m2, _ := r.agent("a2")
	r.must(t1, "echo 1 >f && git commit -qam 1")
	time.Sleep(2100 * time.Millisecond)
	for dir, once := range map[string]bool{"refs/tags": false, "refs/heads/agent": false, "refs/heads": false} {
		t.Run(dir, func(t *testing.T) {
			use := func(m string) error { _, err := run(t, r.dir, "ls", filepath.Join(m, dir, "none")); return err }
			listed := func(m string) error { _, err := run(t, r.dir, "ls", filepath.Join(m, dir)); return err }
			for _, m := range []string{m1, m2} {
				require.NoError(t, listed(m))
				require.Error(t, use(m), "there is none")
				out, err := run(t, r.dir, "chmod", "700", filepath.Join(m, dir))
				require.Error(t, err, "through a view")
				require.Contains(t, out, "Permission denied")
			}
			require.NoError(t, os.Chmod(filepath.Join(r.bare, dir), 0))
			defer func() { require.NoError(t, os.Chmod(filepath.Join(r.bare, dir), 0o755)) }()
			if !once {
				r.views["a1"].InvalidatePath(dir)
			}
			require.Error(t, listed(m1), "at once")
			require.Eventually(t, func() bool { return listed(m2) != nil }, 20*time.Second, 50*time.Millisecond, "not listed after a second")
			require.NoError(t, os.Chmod(filepath.Join(r.bare, dir), 0o755))
			require.NoError(t, listed(m1), "the kernel asks before it refuses")
			require.NoError(t, listed(m2))
		})
	}
}
