package maintain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/git"
)

// repo is a bare repository with one worktree, "tree", and a private directory.
type repo struct {
	t            testing.TB
	bare, tree   string
	private      string
	locked, held int
}

func (r *repo) git(dir string, args ...string) string {
	r.t.Helper()
	return r.in(dir, "", args...)
}

func (r *repo) in(dir, stdin string, args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "git", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=gc.auto", "GIT_CONFIG_VALUE_0=0"}
	out, err := cmd.CombinedOutput()
	require.NoError(r.t, err, "git %v: %s", args, out)
	return strings.TrimSpace(string(out))
}

func newRepo(t testing.TB, format string) *repo {
	dir, err := os.MkdirTemp("", "maintain-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	r := &repo{t: t, bare: filepath.Join(dir, "bare.git"), tree: filepath.Join(dir, "tree"), private: filepath.Join(dir, "privates", "tree")}
	r.git(dir, "init", "-q", "--bare", "-b", "main", "--object-format="+format, r.bare)
	tree := r.in(r.bare, "", "mktree")
	r.git(r.bare, "update-ref", "refs/heads/main", r.git(r.bare, "commit-tree", "-m", "first", tree))
	r.git(r.bare, "worktree", "add", "-q", "-b", "agent/tree", r.tree, "main")
	require.NoError(t, os.MkdirAll(filepath.Join(r.private, "logs", "refs"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(r.private, "refs"), 0o755))
	return r
}

func (r *repo) commit(text string) string {
	r.t.Helper()
	require.NoError(r.t, os.WriteFile(filepath.Join(r.tree, "f"), []byte(text), 0o644))
	r.git(r.tree, "add", "f")
	r.git(r.tree, "commit", "-qm", "c")
	return r.git(r.tree, "rev-parse", "HEAD")
}

func (r *repo) blob(text string) string { return r.in(r.bare, text, "hash-object", "-w", "--stdin") }

// age makes every loose object as old as d.
func (r *repo) age(d time.Duration) {
	r.t.Helper()
	files, err := filepath.Glob(filepath.Join(r.bare, "objects", "??", "*"))
	require.NoError(r.t, err)
	when := time.Now().Add(-d)
	for _, f := range files {
		require.NoError(r.t, os.Chtimes(f, when, when))
	}
}

func (r *repo) has(oid string) bool {
	return exec.CommandContext(r.t.Context(), "git", "-C", r.bare, "-c", "safe.directory=*", "cat-file", "-e", oid).Run() == nil
}

func (r *repo) maintainer() *Maintainer {
	run := &git.Runner{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	return &Maintainer{Repo: git.Repo{Runner: run, Dir: r.bare}, Private: filepath.Dir(r.private), Grace: 14 * 24 * time.Hour, Timeout: time.Minute,
		Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Exclusive: func(context.Context) (func(), error) { r.locked++; r.held++; return func() { r.held-- }, nil }}
}

func (r *repo) sound() {
	r.t.Helper()
	out := r.git(r.bare, "fsck", "--full", "--strict", "--no-dangling")
	require.NotContains(r.t, out, "missing")
}

func TestOnlyWhatNothingNeedsIsRemoved(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			r := newRepo(t, format)
			keep := map[string]string{}
			keep["a branch"] = r.commit("one")
			lost := r.commit("amended away")
			r.git(r.tree, "reset", "-q", "--hard", "HEAD~1")
			keep["a reflog"] = lost
			require.NoError(t, os.WriteFile(filepath.Join(r.tree, "staged"), []byte("staged"), 0o644))
			r.git(r.tree, "add", "staged")
			keep["an index"] = r.git(r.tree, "rev-parse", ":staged")
			empty := r.in(r.bare, "", "mktree")
			orphan := func(s string) string { return r.git(r.bare, "commit-tree", "-m", s, empty) }
			keep["the trash"] = orphan("trash")
			r.git(r.bare, "update-ref", "refs/polis/trash/x/20260101T000000.000000Z", keep["the trash"])
			keep["a private stash"] = orphan("stash")
			require.NoError(t, os.WriteFile(filepath.Join(r.private, "refs", "stash"), []byte(keep["a private stash"]+"\n"), 0o644))
			keep["an older private stash"] = orphan("older stash")
			require.NoError(t, os.WriteFile(filepath.Join(r.private, "logs", "refs", "stash"), []byte(strings.Repeat("0", len(lost))+" "+keep["an older private stash"]+" a <a@b> 1 +0000\tWIP\n"), 0o644))
			keep["a rebase"] = orphan("rebase")
			state := filepath.Join(r.bare, "worktrees", "tree", "rebase-merge")
			require.NoError(t, os.MkdirAll(state, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(state, "autostash"), []byte(keep["a rebase"]), 0o644))
			keep["a file with an odd name"] = orphan("odd")
			odd := filepath.Join(r.bare, "worktrees", "tree", "not-\xff-utf8")
			require.NoError(t, os.MkdirAll(odd, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(odd, "\xfe"), []byte(keep["a file with an odd name"]), 0o644))
			keep["MERGE_HEAD"] = orphan("merge")
			require.NoError(t, os.WriteFile(filepath.Join(r.bare, "worktrees", "tree", "MERGE_HEAD"), []byte(keep["MERGE_HEAD"]+"\n"), 0o644))
			below := r.in(r.bare, "100644 blob "+r.blob("below")+"\tx\n", "mktree")
			r.in(r.bare, "", "update-ref", "refs/tags/tree", below)
			keep["what a named tree holds"] = r.blob("below")

			gone := []string{r.blob("nobody 1"), r.blob("nobody 2"), orphan("nobody 3")}
			r.age(15 * 24 * time.Hour)
			young := r.blob("young")

			m := r.maintainer()
			dry, err := m.Run(t.Context(), true)
			require.NoError(t, err)
			require.Equal(t, len(gone), dry.Unused)
			require.Zero(t, r.locked)
			require.Equal(t, dry.Before, dry.After)
			for _, oid := range gone {
				require.True(t, r.has(oid), "a dry run removes nothing")
			}
			rep, err := m.Run(t.Context(), false)
			require.NoError(t, err)
			require.Equal(t, len(gone), rep.Removed)
			require.Equal(t, 1, r.locked)
			require.Zero(t, r.held)
			for _, oid := range gone {
				require.False(t, r.has(oid))
			}
			for what, oid := range keep {
				require.True(t, r.has(oid), what)
			}
			require.True(t, r.has(young))
			require.Less(t, rep.After.LooseObjects, rep.Before.LooseObjects)
			require.FileExists(t, filepath.Join(r.bare, "objects", "info", "commit-graph"))
			require.FileExists(t, filepath.Join(r.bare, "packed-refs"))
			r.sound()
			again, err := m.Run(t.Context(), false)
			require.NoError(t, err)
			require.Zero(t, again.Removed)
			require.Equal(t, rep.After, again.After)
		})
	}
}

// An object that is needed again between the look and the lock stays.
func TestWhatIsNeededMeanwhileStays(t *testing.T) {
	r := newRepo(t, "sha1")
	empty := r.in(r.bare, "", "mktree")
	back := r.git(r.bare, "commit-tree", "-m", "back", empty)
	staged, touched, gone := r.blob("staged late"), r.blob("touched"), r.blob("gone")
	stashed := r.git(r.bare, "commit-tree", "-m", "stashed late", empty)
	r.age(30 * 24 * time.Hour)
	m := r.maintainer()
	m.Exclusive = func(context.Context) (func(), error) {
		r.git(r.bare, "update-ref", "refs/heads/back", back)
		r.git(r.tree, "update-index", "--add", "--cacheinfo", "100644,"+staged+",late")
		require.NoError(t, os.Chtimes(filepath.Join(r.bare, "objects", touched[:2], touched[2:]), time.Now(), time.Now()))
		require.NoError(t, os.WriteFile(filepath.Join(r.private, "refs", "stash"), []byte(stashed+"\n"), 0o644))
		return func() {}, nil
	}
	_, err := m.Run(t.Context(), false)
	require.NoError(t, err)
	for _, oid := range []string{back, staged, touched, stashed} {
		require.True(t, r.has(oid))
	}
	require.False(t, r.has(gone))
	r.sound()
}

// If it is unknown which objects are needed, or the lock is not available, nothing is removed.
func TestInDoubtNothingIsRemoved(t *testing.T) {
	for name, spoil := range map[string]func(r *repo, m *Maintainer){
		"the lock is not available": func(_ *repo, m *Maintainer) {
			m.Exclusive = func(context.Context) (func(), error) { return nil, errors.New("locked") }
		},
		"an index is corrupt": func(r *repo, _ *Maintainer) {
			require.NoError(t, os.WriteFile(filepath.Join(r.bare, "worktrees", "tree", "index"), []byte("DIRC garbage of some length, more than twenty bytes"), 0o644))
		},
		"a file of an agent is too large": func(r *repo, _ *Maintainer) {
			require.NoError(t, os.WriteFile(filepath.Join(r.bare, "worktrees", "tree", "HUGE"), make([]byte, maxNamedFile+1), 0o644))
		},
		"a stash that lacks its tree": func(r *repo, _ *Maintainer) {
			c := r.in(r.bare, "tree "+strings.Repeat("1", 40)+"\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n\nx\n", "hash-object", "-t", "commit", "-w", "--stdin", "--literally")
			require.NoError(t, os.WriteFile(filepath.Join(r.private, "refs", "stash"), []byte(c+"\n"), 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t, "sha1")
			r.commit("one")
			oid := r.blob("nobody")
			m := r.maintainer()
			spoil(r, m)
			r.age(30 * 24 * time.Hour)
			rep, err := m.Run(t.Context(), false)
			if name == "the lock is not available" {
				require.Error(t, err)
			} else {
				require.NoError(t, err, "one agent's damage is no other's")
				require.Len(t, rep.Unreadable, 1)
				require.Contains(t, rep.Unreadable[0], "tree: ")
				require.FileExists(t, filepath.Join(r.bare, "packed-refs"), "all else is done")
			}
			require.True(t, r.has(oid))
			require.Zero(t, r.held)
		})
	}
}

func TestSmallPacksAreJoined(t *testing.T) {
	r := newRepo(t, "sha1")
	m := r.maintainer()
	for i := range 6 {
		r.commit(strings.Repeat(fmt.Sprint(i), 100))
		r.git(r.bare, "repack", "-q", "-l")
		r.git(r.bare, "prune-packed", "-q")
	}
	r.commit("one more")
	kept, err := m.packs()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(r.bare, "objects", "pack", kept[0].name+".keep"), nil, 0o644))
	rep, err := m.Run(t.Context(), false)
	require.NoError(t, err)
	require.Equal(t, int64(6), rep.Before.Packs)
	require.Equal(t, int64(2), rep.After.Packs)
	require.Equal(t, 6, rep.PacksJoined)
	require.FileExists(t, filepath.Join(r.bare, "objects", "pack", kept[0].name+".pack"))
	require.Zero(t, rep.After.Garbage)
	require.Equal(t, "8", r.git(r.bare, "rev-list", "--count", "agent/tree"))
	r.sound()
}

// Commits and logs continue while maintenance runs over and over.
func TestGitContinuesDuringMaintenance(t *testing.T) {
	r := newRepo(t, "sha1")
	m := r.maintainer()
	m.Grace = time.Hour
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	runs := 0
	var failed error
	wg.Go(func() {
		for ctx.Err() == nil {
			if _, err := m.Run(ctx, false); err != nil && ctx.Err() == nil {
				failed = errors.Join(failed, err)
				return
			}
			runs++
		}
	})
	const commits = 25
	for i := range commits {
		r.commit(fmt.Sprint("during ", i))
		require.Equal(t, fmt.Sprint(i+2), r.git(r.tree, "rev-list", "--count", "HEAD"))
		r.git(r.tree, "log", "-p", "-3")
	}
	stop()
	wg.Wait()
	require.NoError(t, failed)
	require.Positive(t, runs)
	r.sound()
}

// What is joined keeps the number of packs
// logarithmic and never touches a pack that outweighs the rest.
func TestSplitIsGeometric(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sizes := rapid.SliceOfN(rapid.Int64Range(1, 1<<40), 0, 30).Draw(rt, "sizes")
		packs := make([]pack, len(sizes))
		for i, s := range sizes {
			packs[i] = pack{fmt.Sprint(i), s}
		}
		sortPacks(packs)
		n := split(packs)
		require.NotEqual(rt, 1, n)
		sum := int64(0)
		for _, p := range packs[:n] {
			sum += p.size
		}
		for _, p := range packs[n:] {
			require.GreaterOrEqual(rt, p.size, factor*sum)
			sum += p.size
		}
		require.LessOrEqual(rt, len(packs)-n, 42)
	})
}

func FuzzScan(f *testing.F) {
	f.Add([]byte("0123456789012345678901234567890123456789 x\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		scan(b, func(id string) {
			require.True(t, git.IsOID(id))
			require.Contains(t, string(b), id)
		})
	})
}
