package maintain

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/git"
)

// own is the maintained repository as the agent "tree" sees it, whose objects are
// its own.
func (r *repo) own(args ...string) string {
	r.t.Helper()
	dir := filepath.Join(r.private, "objects")
	require.NoError(r.t, os.MkdirAll(filepath.Join(dir, "pack"), 0o755))
	cmd := exec.CommandContext(r.t.Context(), "git", args...)
	cmd.Dir = r.tree
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
		"GIT_OBJECT_DIRECTORY=" + dir, "GIT_ALTERNATE_OBJECT_DIRECTORIES=" + filepath.Join(r.bare, "objects")}
	out, err := cmd.CombinedOutput()
	require.NoError(r.t, err, "git %v: %s", args, out)
	return strings.TrimSpace(string(out))
}

func ageAll(t *testing.T, dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "??", "*"))
	require.NoError(t, err)
	when := time.Now().Add(-30 * 24 * time.Hour)
	for _, f := range files {
		require.NoError(t, os.Chtimes(f, when, when))
	}
}

// Of each directory of objects goes what nothing needs: the internal repository
// borrows from the shared one, and an agent's own are in neither.
func TestEveryStoreKeepsWhatIsNeededThere(t *testing.T) {
	r := newRepo(t, "sha1")
	m := r.maintainer()
	internal := filepath.Join(filepath.Dir(r.bare), "internal.git")
	r.git(filepath.Dir(r.bare), "init", "-q", "--bare", internal)
	require.NoError(t, os.WriteFile(filepath.Join(internal, "objects/info/alternates"), []byte("../../bare.git/objects\n"), 0o644))
	m.Internal = git.Repo{Runner: m.Repo.Runner, Dir: internal}

	there := func(dir, id string) bool {
		_, err := os.Stat(filepath.Join(dir, id[:2], id[2:]))
		return err == nil
	}
	mine := filepath.Join(r.private, "objects")
	// Only the trash needs it, and borrows it.
	borrowed := r.blob("borrowed")
	tree := r.in(internal, "100644 blob "+borrowed+"\tx\n", "mktree")
	kept := r.git(internal, "commit-tree", "-m", "kept", tree)
	r.git(internal, "update-ref", "refs/polis/trash/x/20260101T000000.000000Z", kept)
	dropped := r.in(internal, "dropped", "hash-object", "-w", "--stdin")

	require.NoError(t, os.WriteFile(filepath.Join(r.tree, "staged"), []byte("staged"), 0o644))
	r.own("add", "staged")
	staged := r.own("rev-parse", ":staged")
	r.own("checkout", "-q", "--detach")
	r.own("commit", "-q", "--allow-empty", "-m", "detached")
	detached := r.own("rev-parse", "HEAD")
	needsShared := r.blob("shared, named by an index alone")
	r.own("update-index", "--add", "--cacheinfo", "100644,"+needsShared+",late")
	require.NoError(t, os.WriteFile(filepath.Join(r.tree, "junk"), []byte("junk"), 0o644))
	junk := r.own("hash-object", "-w", "junk")
	nobodys := r.blob("nobody's")
	for _, dir := range []string{mine, filepath.Join(internal, "objects"), filepath.Join(r.bare, "objects")} {
		ageAll(t, dir)
	}

	rep, err := m.Run(t.Context(), false)
	require.NoError(t, err)
	require.Empty(t, rep.Unreadable)
	require.Equal(t, 3, rep.Removed)
	require.False(t, there(mine, junk))
	require.False(t, r.has(nobodys))
	require.NoFileExists(t, filepath.Join(internal, "objects", dropped[:2], dropped[2:]))
	require.True(t, there(mine, staged))
	require.True(t, there(mine, detached))
	require.True(t, r.has(needsShared))
	require.True(t, r.has(borrowed))
	r.own("fsck", "--full", "--strict")
	r.git(internal, "fsck", "--full", "--strict")
	require.Equal(t, kept, r.git(internal, "rev-parse", "refs/polis/trash/x/20260101T000000.000000Z"))

	// When the saved work is deleted, it is removed after the grace.
	r.git(internal, "update-ref", "-d", "refs/polis/trash/x/20260101T000000.000000Z")
	packs, err := filepath.Glob(filepath.Join(internal, "objects/pack/*.pack"))
	require.NoError(t, err)
	require.NotEmpty(t, packs)
	old := time.Now().Add(-30 * 24 * time.Hour)
	for _, p := range packs {
		require.NoError(t, os.Chtimes(p, old, old))
	}
	_, err = m.Run(t.Context(), false)
	require.NoError(t, err)
	require.NotContains(t, r.git(internal, "cat-file", "--batch-all-objects", "--batch-check"), kept)
	require.False(t, r.has(borrowed))
}

// Whatever one agent's files are, maintenance does its work, and removes nothing
// that any of them may need.
func TestDamagedFilesOfAnAgentStopNothing(t *testing.T) {
	garbage := bytes.Repeat([]byte("\x00\xff garbage \n"), 100)
	unknown := strings.Repeat("1", 40)
	for _, name := range []string{"HEAD", "ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD", "index", "commondir", "gitdir", "config.worktree", "locked", "logs/HEAD", "refs/bisect/bad", "sequencer/todo", "rebase-merge/onto"} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t, "sha1")
			r.git(r.bare, "worktree", "add", "-q", "-b", "agent/other", filepath.Join(filepath.Dir(r.bare), "other"), "main")
			wanted := r.git(r.bare, "commit-tree", "-m", "wanted", r.in(r.bare, "", "mktree"))
			other := filepath.Join(r.bare, "worktrees", "other")
			require.NoError(t, os.WriteFile(filepath.Join(other, "ORIG_HEAD"), []byte(wanted+"\n"), 0o644))
			file := filepath.Join(r.bare, "worktrees", "tree", name)
			put := func(b []byte) {
				require.NoError(t, os.RemoveAll(file))
				require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
				require.NoError(t, os.WriteFile(file, b, 0o644))
			}
			for what, spoil := range map[string]func(){
				"garbage":       func() { put(garbage) },
				"empty":         func() { put(nil) },
				"unknown":       func() { put([]byte(unknown + "\n")) },
				"a blob":        func() { put([]byte(r.blob("x") + "\n")) },
				"a ref unknown": func() { put([]byte("ref: refs/heads/nowhere\n")) },
				"huge":          func() { put(make([]byte, maxNamedFile+1)) },
				"a directory": func() {
					require.NoError(t, os.RemoveAll(file))
					require.NoError(t, os.MkdirAll(filepath.Join(file, "d"), 0o755))
				},
				"a link": func() {
					require.NoError(t, os.RemoveAll(file))
					require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
					require.NoError(t, os.Symlink("/dev/zero", file))
				},
			} {
				spoil()
				ageAll(t, filepath.Join(r.bare, "objects"))
				rep, err := r.maintainer().Run(t.Context(), false)
				require.NoError(t, err, what)
				for _, s := range rep.Steps {
					require.Empty(t, s.Error, what)
				}
				require.True(t, r.has(wanted), what)
			}
			require.NoError(t, os.RemoveAll(filepath.Join(r.bare, "worktrees", "tree")))
			r.sound()
		})
	}
}

func TestReadIndexFindsWhatGitHas(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		for _, version := range []string{"2", "3", "4"} {
			t.Run(format+version, func(t *testing.T) {
				r := newRepo(t, format)
				for i := range 40 {
					require.NoError(t, os.WriteFile(filepath.Join(r.tree, strings.Repeat("n", i+1)), []byte(fmt.Sprint(i)), 0o644))
				}
				r.git(r.tree, "add", ".")
				r.git(r.tree, "write-tree") // an extension
				r.git(r.tree, "update-index", "--index-version", version)
				if version == "3" {
					r.git(r.tree, "update-index", "--skip-worktree", "nnn")
				}
				var want, got []string
				for _, line := range strings.Split(r.git(r.tree, "ls-files", "-s"), "\n") {
					want = append(want, strings.Fields(line)[1])
				}
				b, err := os.ReadFile(filepath.Join(r.bare, "worktrees", "tree", "index"))
				require.NoError(t, err)
				require.Equal(t, version, fmt.Sprint(binary.BigEndian.Uint32(b[4:])))
				hash := len(want[0]) / 2
				require.NoError(t, readIndex(bytes.NewReader(b), hash, func(id string) { got = append(got, id) }))
				require.Equal(t, want, got)
				require.ErrorIs(t, readIndex(bytes.NewReader(b[:len(b)/2]), hash, func(string) {}), errIndex)
			})
		}
	}
}

// What git keeps of a conflict that was resolved is found, too.
func TestReadIndexFindsResolvedConflicts(t *testing.T) {
	r := newRepo(t, "sha1")
	r.commit("base")
	base := r.git(r.tree, "rev-parse", "HEAD:f")
	r.git(r.tree, "checkout", "-q", "-b", "theirs")
	r.commit("theirs")
	r.git(r.tree, "checkout", "-q", "agent/tree")
	r.commit("ours")
	require.Error(t, exec.CommandContext(t.Context(), "git", "-C", r.tree, "-c", "user.name=a", "-c", "user.email=a@b", "merge", "-q", "theirs").Run())
	require.NoError(t, os.WriteFile(filepath.Join(r.tree, "f"), []byte("resolved"), 0o644))
	r.git(r.tree, "add", "f")
	f, err := os.Open(filepath.Join(r.bare, "worktrees", "tree", "index"))
	require.NoError(t, err)
	defer f.Close()
	var got []string
	require.NoError(t, readIndex(f, 20, func(id string) { got = append(got, id) }))
	require.Subset(t, got, []string{base, r.git(r.tree, "rev-parse", "theirs:f"), r.git(r.tree, "rev-parse", "HEAD:f")})
}

func FuzzReadIndex(f *testing.F) {
	f.Add([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x01"), 20)
	f.Add(slices.Concat([]byte("DIRC\x00\x00\x00\x04\x00\x00\x00\x00REUC\x00\x00\x00\x04"), make([]byte, 40)), 32)
	f.Fuzz(func(t *testing.T, b []byte, hash int) {
		if hash != 32 {
			hash = 20
		}
		_ = readIndex(bytes.NewReader(b), hash, func(id string) { require.Len(t, id, 2*hash) })
	})
}
