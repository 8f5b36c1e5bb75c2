package gitdir

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/fusefs"
)

// What other processes can change must not be cached.
func TestKeepFollowsWhoCanChangeAName(t *testing.T) {
	g := &Guard{cfg: Config{Worktree: "me"}}
	hash := strings.Repeat("ab", 19)
	for path, want := range map[string]fusefs.Keep{
		"":                                    fusefs.KeepMode,
		"config":                              keepOwn,
		"hooks/pre-commit":                    keepOwn,
		"refs/stash":                          keepOwn,
		"logs/refs/stash":                     keepOwn,
		"COMMIT_EDITMSG":                      keepOwn,
		"HEAD":                                0,
		"packed-refs":                         0,
		"packed-refs.lock":                    0,
		"shallow":                             0,
		"FETCH_HEAD":                          0,
		"objects":                             keepDir,
		"objects/ab":                          keepDir | fusefs.KeepSharedDir, // goes when it is packed
		"objects/tmp_obj_x":                   0,
		"objects/pack":                        keepDir,
		"objects/abc":                         0,
		"objects/ab/" + hash:                  keepObject,
		"objects/ab/" + hash + "x":            0,
		"objects/ab/tmp_obj_x":                keepTemp,
		"objects/info":                        keepDir,
		"objects/info/alternates":             0,
		"objects/info/commit-graph":           0,
		"objects/pack/multi-pack-index":       0,
		"objects/pack/pack-" + hash + ".idx":  keepObject,
		"objects/pack/pack-" + hash + ".pack": keepObject,
		"objects/pack/pack-" + hash + ".keep": 0,
		"objects/pack/tmp_pack_x":             keepTemp,
		"objects/pack/tmp_x":                  0,
		"refs":                                keepDir,
		"refs/heads":                          keepDir,
		"refs/heads/main":                     0,
		"refs/heads/main.lock":                0,
		"refs/heads/agent":                    keepDir | fusefs.KeepSharedDir,
		"refs/heads/agent/me":                 0,
		"refs/heads/agents":                   0,
		"refs/tags/agent":                     0,
		"refs/remotes":                        0,
		"logs":                                keepDir,
		"logs/refs":                           keepDir,
		"logs/refs/heads":                     keepDir,
		"logs/refs/heads/main":                0,
		"logs/refs/heads/agent":               keepDir | fusefs.KeepSharedDir,
		"worktrees":                           keepDir,
		"worktrees/me":                        keepDir,
		"worktrees/me/index":                  0,
		"worktrees/me/index.lock":             0,
		"worktrees/me/HEAD":                   0,
		"worktrees/me/commondir":              keepFile,
		"worktrees/me/MERGE_HEAD":             keepOwn,
		"worktrees/me/rebase-merge/done":      keepOwn,
		"worktrees/other":                     keepOwn, // if the agent made it
		"worktrees/other/HEAD":                keepOwn,
	} {
		require.Equal(t, want, g.Keep(path), "%q", path)
	}
}

// Two agents and the daemon work on one repository: each sees at once what the
// others have done, though its kernel keeps what it has seen.
func TestNothingStaleIsSeenOfOthersWork(t *testing.T) {
	r := newRepo(t, "sha1")
	t1, m1, _ := r.agent("a1")
	t2, _, _ := r.agent("a2")
	look := "git log --all --oneline | wc -l; git for-each-ref --format='%(refname) %(objectname)'; git rev-parse HEAD"
	for i := range 6 {
		before := r.must(t2, look) // warms everything, what is absent too
		r.must(t2, fmt.Sprintf("git rev-parse -q --verify refs/tags/t%d || test $? = 1", i))
		r.must(t1, fmt.Sprintf("echo %d >>f && git commit -qam %d && git tag t%d && git branch b%d", i, i, i, i))
		want := r.must(t1, "git rev-parse HEAD")
		require.NotEqual(t, before, r.must(t2, look))
		require.Equal(t, want, r.must(t2, fmt.Sprintf("git rev-parse t%d b%d agent/a1 | sort -u", i, i)))
		require.Contains(t, r.must(t2, fmt.Sprintf("git show t%d:f", i)), fmt.Sprint(i))
		// The daemon moves the target branch, packs refs, and rewrites an index.
		r.must(r.bare, "git update-ref refs/heads/main "+want)
		require.Equal(t, want, r.must(t2, "git rev-parse main"))
		if i == 3 {
			r.must(r.bare, "git pack-refs --all && git repack -adq")
			require.Equal(t, want, r.must(t2, "git rev-parse main && git fsck --connectivity-only 2>/dev/null"))
		}
		require.Equal(t, "f\ng", r.must(t2, "git ls-files"))
		daemon := fmt.Sprintf("GIT_DIR=%s/worktrees/a2 GIT_WORK_TREE=%s ", r.bare, t2)
		r.must(r.bare, daemon+"git update-index --force-remove g")
		require.Equal(t, "f", r.must(t2, "git ls-files"))
		r.must(t2, "git reset -q")
	}
	// A name that was free at the last lookup, created by another agent.
	ref := filepath.Join(m1, "refs/heads/theirs")
	_, err := os.Stat(ref)
	require.ErrorIs(t, err, os.ErrNotExist)
	r.must(r.bare, "git update-ref refs/heads/theirs main")
	_, err = os.Stat(ref)
	require.NoError(t, err)
}
