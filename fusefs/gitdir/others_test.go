package gitdir

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Links are allowed in the repositories of submodules, and nowhere else: git on
// the host would follow one that stands for a log or an index.
func TestLinksDoNotLeaveSubmodules(t *testing.T) {
	r := newRepo(t, "sha1")
	_, m, _ := r.agent("a1")
	for name, line := range map[string]string{
		"to the log of a branch to come": "mv $m/l logs/refs/heads/agent/later",
		"to a log of its own":            "mv $m/l logs/refs/heads/agent/a1",
		"to the index":                   "mv $m/l worktrees/a1/index",
		"to a new name of the worktree":  "mv $m/l worktrees/a1/x",
		"with a directory":               "mkdir $m/d && mv $m/l $m/d/HEAD && rm -rf worktrees/a1/logs && mv $m/d worktrees/a1/logs",
		"with the directory of all":      "mv worktrees/a1/modules worktrees/a1/other",
		"a log of the branch of another": "echo x > $m/f && mv $m/f worktrees/a1/f && mv worktrees/a1/f logs/refs/heads/agent/later",
		"by a hard link":                 "ln $m/l logs/refs/heads/agent/later",
	} {
		t.Run(name, func(t *testing.T) {
			out, err := run(t, m, "sh", "-c", "set -e; m=worktrees/a1/modules; rm -rf $m logs/refs/heads/agent; mkdir -p $m logs/refs/heads/agent; ln -s /tmp/elsewhere $m/l; "+line)
			require.Error(t, err, out)
		})
	}
	// Nothing of it is on the disk, whatever the view shows.
	require.NoError(t, filepath.WalkDir(r.bare, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type()&os.ModeSymlink != 0 {
			require.Contains(t, path, "/modules/")
		}
		return err
	}))
	r.must(m, "m=worktrees/a1/modules; mkdir -p $m/s; ln -s target $m/s/l; mv $m/s/l $m/s/k; mv $m/s $m/t; test -L $m/t/k")
}

// A name decides what others get when they use it: no agent makes one that resolves to another's
// branch, or that git itself would refuse.
func TestNamesThatStandForOthersWorkAreRefused(t *testing.T) {
	r := newRepo(t, "sha1")
	tree1, m, _ := r.agent("a1")
	tree2, _, _ := r.agent("a2")
	r.must(tree2, "git branch a2s && echo z > z && git add z && git commit -qm z")
	before := r.must(tree2, "git rev-parse main other a2s agent/a2 HEAD 2>&1")
	for name, ref := range map[string]string{
		"a tag like the target branch":       "refs/tags/main",
		"a tag like a branch of the user's":  "refs/tags/other",
		"a tag like another's branch":        "refs/tags/a2s",
		"a tag like another agent's branch":  "refs/tags/agent/a2",
		"the branch of an agent to come":     "refs/heads/agent/a3",
		"below the branch of one to come":    "refs/heads/agent/a3/x",
		"a tag for the branch of one coming": "refs/tags/agent/a3",
		"a branch called HEAD":               "refs/heads/HEAD",
		"a tag called HEAD":                  "refs/tags/HEAD",
		"a branch like an option":            "refs/heads/-f",
		"a tag like an option":               "refs/tags/-f",
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Dir(ref)
			out, err := run(t, m, "sh", "-c", "set -e; h=$(git -C "+tree1+" rev-parse HEAD); mkdir -p ./"+dir+"; echo $h > ./"+ref+".lock; mv ./"+ref+".lock ./"+ref)
			require.Error(t, err, out)
			require.Equal(t, before, r.must(tree2, "git rev-parse main other a2s agent/a2 HEAD 2>&1"))
		})
	}
	r.must(tree1, "git branch mine && git tag mine && git branch HEADS && git tag v-2 && git branch -m agent/a1 moved && git branch -m moved agent/a1")
}

// What a ref points to must exist: every git that reads all refs, also the daemon's, would fail
// otherwise.
func TestARefLeadsToWhatIsThere(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			r := newRepo(t, format)
			tree1, m, _ := r.agent("a1")
			tree2, _, _ := r.agent("a2")
			absent := strings.Repeat("deadbeef", len(r.must(r.bare, "git rev-parse main"))/8)
			commit := func(tree, parent string) string {
				return "$(printf 'tree %s\\nparent %s\\nauthor a <a@b> 1 +0000\\ncommitter a <a@b> 1 +0000\\n\\nx\\n' " + tree + " " + parent + " | git -C " + tree1 + " hash-object -w -t commit --stdin)"
			}
			known := "$(git -C " + tree1 + " rev-parse HEAD)"
			for name, oid := range map[string]string{
				"an object that is nowhere":   absent,
				"a commit without its parent": commit("$(git -C "+tree1+" rev-parse HEAD^{tree})", absent),
				"a commit without its tree":   commit(absent, known),
				"a commit without a file":     commit("$(printf '100644 blob "+absent+"\\tf\\n' | git -C "+tree1+" mktree --missing)", known),
				"a file":                      "$(git -C " + tree1 + " rev-parse HEAD:f)",
				"a tree":                      "$(git -C " + tree1 + " rev-parse HEAD^{tree})",
			} {
				for _, ref := range []string{"refs/heads/new", "refs/heads/agent/a1"} {
					out, err := run(t, m, "sh", "-c", "set -e; o="+oid+"; echo $o > "+ref+".lock; mv "+ref+".lock "+ref)
					require.Error(t, err, "%s: %s", name, out)
					_, err = run(t, m, "sh", "-c", "rm -f "+ref+".lock")
					require.NoError(t, err)
				}
				// What its own HEAD says proves nothing.
				out, err := run(t, m, "sh", "-c", "set -e; o="+oid+"; w=worktrees/a1; cp $w/HEAD $w/H; echo $o > $w/HEAD; trap 'mv $w/H $w/HEAD; rm -f refs/heads/new.lock' 0; echo $o > refs/heads/new.lock; mv refs/heads/new.lock refs/heads/new")
				require.Error(t, err, "%s: %s", name, out)
				out, err = run(t, m, "sh", "-c", "set -e; o="+oid+"; : > packed-refs.lock; { cat packed-refs; echo $o refs/heads/zzz; } > packed-refs.new; mv packed-refs.new packed-refs")
				require.Error(t, err, "%s: %s", name, out)
				_, err = run(t, m, "sh", "-c", "rm -f packed-refs.new packed-refs.lock")
				require.NoError(t, err)
			}
			// One that is broken already blocks no agent.
			require.NoError(t, os.WriteFile(filepath.Join(r.bare, "refs", "heads", "broken"), []byte(absent+"\n"), 0o644))
			require.NoError(t, os.Chown(filepath.Join(r.bare, "refs", "heads", "broken"), nobody, nobody))
			r.must(tree2, "echo y > y && git add y && git commit -qm y && git tag -am t t9 && git branch -m agent/a2 b && git branch -m b agent/a2")
			require.NoError(t, os.Remove(filepath.Join(r.bare, "refs", "heads", "broken")))
			r.must(tree2, "git tag blob $(git rev-parse HEAD:f); git log --oneline --all; git fsck --full --strict; git repack; git pack-refs --all")
		})
	}
}

// A fetch of many refs, or one ref after the other to the same commit, is not one
// git for each.
func TestManyRefsAreOneQuestion(t *testing.T) {
	r := newRepo(t, "sha1")
	tree, _, _ := r.agent("a1")
	before := asked.Load()
	r.must(tree, "for i in $(seq 40); do echo $i > n; git add n; git commit -qm $i; done")
	require.LessOrEqual(t, asked.Load()-before, int64(42))
	before = asked.Load()
	r.must(tree, "i=0; git rev-list HEAD | while read h; do i=$((i+1)); echo create refs/heads/m/$i $h; echo create refs/tags/m/$i $h; done | git update-ref --stdin; git branch one; git branch two")
	require.LessOrEqual(t, asked.Load()-before, int64(2))
}

func TestRefsAreNotWithoutEnd(t *testing.T) {
	r := newRepo(t, "sha1")
	_, _, g := r.agent("a1")
	g.mu.Lock()
	for i := range maxRefs {
		g.owned[fmt.Sprintf("refs/tags/%d", i)] = true
	}
	g.mu.Unlock()
	out, err := run(t, filepath.Join(r.dir, "a1"), "git", "branch", "more")
	require.Error(t, err)
	require.Contains(t, out, "quota")
	r.must(filepath.Join(r.dir, "a1"), "git commit -q --allow-empty -m more")

	long := strings.Repeat("x", 250)
	g.mu.Lock()
	clear(g.owned)
	for i := range maxRefBytes / 2000 {
		g.owned[fmt.Sprintf("refs/tags/%s/%d", strings.Repeat(long+"/", 8), i)] = true
	}
	g.mu.Unlock()
	out, err = run(t, filepath.Join(r.dir, "a1"), "git", "branch", "more")
	require.Error(t, err)
	require.Contains(t, out, "quota", "few, with long names")

	// Git locks all refs of a transaction before it makes the first one.
	g.mu.Lock()
	clear(g.owned)
	for i := range maxRefs - 10 {
		g.owned[fmt.Sprintf("refs/tags/%d", i)] = true
	}
	g.mu.Unlock()
	transaction := "i=0; while [ $i -lt %d ]; do i=$((i+1)); echo create refs/tags/t$i HEAD; done | git update-ref --stdin"
	out, err = run(t, filepath.Join(r.dir, "a1"), "sh", "-c", fmt.Sprintf(transaction, 11))
	require.Error(t, err)
	require.Contains(t, out, "quota")
	require.Len(t, g.Owned(), maxRefs-10)
	r.must(filepath.Join(r.dir, "a1"), fmt.Sprintf(transaction, 10))
	require.Len(t, g.Owned(), maxRefs)
}
