package worktree

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/git"
)

// Whatever an agent does to its part of the git directory, every verb for every other
// agent works, and it can be saved in the trash itself.
func TestADamagedWorktreeHarmsItsOwnAgentOnly(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	w.cfg.Taken = func(string, string) string { return "" } // the daemon knows better than a HEAD
	_, err := w.Add(t.Context(), "evil", "", "")
	require.NoError(t, err)
	tree, err := w.Add(t.Context(), "good", "", "")
	require.NoError(t, err)
	write(t, tree.Path+"/work", "precious\n")
	chown(t, tree.Path)
	as(t, nobody, tree.Path, "commit", "-q", "--allow-empty", "-m", "good")
	dir := w.admin("evil")
	saved := filepath.Join(tempDir(t), "saved")
	require.NoError(t, os.CopyFS(saved, os.DirFS(dir)))
	blob := as(t, nobody, tree.Path, "hash-object", "-w", "work")

	n := 0
	check := func(what string) {
		t.Helper()
		n++
		ctx := t.Context()
		status, err := w.Status(ctx, "good", "agent/good", View{})
		require.NoError(t, err, what)
		require.Equal(t, 1, status.Untracked, what)
		paths, err := w.Uncommitted(ctx, "good")
		require.NoError(t, err, what)
		require.Equal(t, []string{"work"}, paths, what)
		var diff bytes.Buffer
		require.NoError(t, w.Diff(ctx, "good", DiffOptions{Branch: "agent/good"}, &diff), what)
		require.Contains(t, diff.String(), "precious", what)
		_, err = w.Sync(ctx)
		require.NoError(t, err, what)
		_, err = w.List()
		require.NoError(t, err, what)
		name := fmt.Sprint("new", n)
		made, err := w.Add(ctx, name, "", "")
		require.NoError(t, err, what)
		write(t, made.Path+"/mine", "x\n")
		chown(t, made.Path)
		gone, err := w.Discard(ctx, name, "agent/"+name)
		require.NoError(t, err, what)
		_, err = w.trashSize(ctx, gone.Ref)
		require.NoError(t, err, what)
		_, err = w.Restore(ctx, gone.Ref, name, "agent/"+name)
		require.NoError(t, err, what)
		_, err = w.Discard(ctx, name, "agent/"+name)
		require.NoError(t, err, what)
		require.NoError(t, git.Copy(ctx, w.Internal(), w.Bare(), []string{gone.Head}), what)
	}
	check("nothing is damaged")

	contents := map[string]func() []byte{
		"garbage":               func() []byte { return bytes.Repeat([]byte("\x00\xff garbage \n"), 100) },
		"empty":                 func() []byte { return nil },
		"unknown":               func() []byte { return []byte(absent + "\n") },
		"a blob":                func() []byte { return []byte(blob + "\n") },
		"another's branch":      func() []byte { return []byte("ref: refs/heads/agent/good\n") },
		"the next one's":        func() []byte { return []byte(fmt.Sprintf("ref: refs/heads/agent/new%d\n", n+1)) },
		"the target":            func() []byte { return []byte("ref: refs/heads/main\n") },
		"a name that leads out": func() []byte { return []byte("ref: ../../../../etc/passwd\n") },
		"huge":                  func() []byte { return make([]byte, 1<<20) },
	}
	odd := map[string]func(path string) error{
		"a directory": func(p string) error { return os.MkdirAll(filepath.Join(p, "x"), 0o755) },
		"a link":      func(p string) error { return os.Symlink("/dev/zero", p) },
		"a pipe":      func(p string) error { return unix.Mkfifo(p, 0o644) },
		"gone":        func(string) error { return nil },
	}
	for what, text := range contents {
		odd[what] = func(p string) error { return os.WriteFile(p, text(), 0o644) }
	}
	all := []string{"HEAD", "ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD", "index", "commondir", "gitdir", "config.worktree", "locked", "logs/HEAD", "refs/bisect/bad", "sequencer/todo", "rebase-merge/head-name", "BISECT_START"}
	for i, what := range slices.Sorted(maps.Keys(odd)) {
		spoil := odd[what]
		sets := [][]string{{"HEAD"}, all[1:]}
		if testing.Short() {
			sets = sets[i%2 : i%2+1] // each case starts some forty programs
		}
		for _, files := range sets {
			for _, name := range files {
				path := filepath.Join(dir, name)
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
				require.NoError(t, os.RemoveAll(path))
				require.NoError(t, spoil(path))
			}
			chown(t, dir)
			check(files[0] + " is " + what)
			require.NoError(t, os.RemoveAll(dir))
			require.NoError(t, os.CopyFS(dir, os.DirFS(saved)))
			chown(t, dir)
		}
	}
}

const absent = "deadbeefdeadbeefdeadbeefdeadbeefdeadbeef"
