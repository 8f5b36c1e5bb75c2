package snapshot

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// edit changes a random path of a tree, and returns what a view would have recorded.
func edit(t *rapid.T, dir string) (paths, trees []string) {
	all := []string{"a", "b", "d", "d/a", "d/e", "d/e/f", "g", "g/h"}
	name := rapid.SampledFrom(all).Draw(t, "path")
	at := filepath.Join(dir, name)
	fi, err := os.Lstat(at)
	isDir := err == nil && fi.IsDir()
	switch rapid.IntRange(0, 6).Draw(t, "edit") {
	case 0:
		if isDir && os.RemoveAll(at) == nil { // every file would be recorded; the directory covers them
			return nil, []string{name}
		}
		_ = os.Remove(at)
		return []string{name}, nil
	case 1:
		if os.Mkdir(at, 0o755) == nil {
			return nil, []string{name}
		}
	case 2:
		if !isDir {
			_ = os.Remove(at)
			_ = os.Symlink("to/"+name, at)
			return []string{name}, nil
		}
	case 3:
		if err == nil && fi.Mode().Type() != os.ModeSymlink {
			mode := os.FileMode(0o700 + rapid.IntRange(0, 7).Draw(t, "mode"))
			_ = os.Chmod(at, mode)
			return []string{name}, nil
		}
	case 4:
		to := rapid.SampledFrom(all).Draw(t, "to")
		_ = os.Rename(at, filepath.Join(dir, to))
		return nil, []string{name, to}
	case 5:
		if err == nil && fi.Mode().IsRegular() {
			_ = unix.Setxattr(at, "user.x", []byte(rapid.StringN(0, 4, 4).Draw(t, "value")), 0)
			return []string{name}, nil
		}
	default:
		if !isDir && (err != nil || fi.Mode().IsRegular()) {
			_ = os.WriteFile(at, []byte(rapid.StringN(0, 20, 40).Draw(t, "content")), 0o644)
			return []string{name}, nil
		}
	}
	return nil, nil
}

// TestADeltaIsWhatChanged: the state of a tree is that of any earlier moment with the deltas since.
func TestADeltaIsWhatChanged(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp("", "delta")
		require.NoError(rt, err)
		defer os.RemoveAll(dir)
		root, err := os.Open(dir)
		require.NoError(rt, err)
		defer root.Close()
		full := func() *Manifest {
			m, err := (&Scan{Root: root, Sink: Hashes{}}).Run(context.Background())
			require.NoError(rt, err)
			return m
		}
		first := full()
		state, sum := first, &Delta{}
		for range rapid.IntRange(1, 8).Draw(rt, "checkpoints") {
			var paths, trees []string
			for range rapid.IntRange(0, 6).Draw(rt, "edits") {
				p, tr := edit(rt, dir)
				paths, trees = append(paths, p...), append(trees, tr...)
			}
			d, err := (&Scan{Root: root, Sink: Hashes{}}).Paths(context.Background(), paths, trees)
			require.NoError(rt, err)
			d, err = ParseDelta(d.Encode())
			require.NoError(rt, err)
			state, sum = d.Apply(state), sum.Then(d)
			want := full()
			require.Equal(rt, string(want.Encode()), string(state.Encode()))
			require.Equal(rt, string(want.Encode()), string(sum.Apply(first).Encode()))
		}
	})
}

func TestOnlyTheTextOfADeltaIsRead(t *testing.T) {
	good := (&Delta{Cleared: []string{"a", "b\n"}, Entries: []Entry{{Path: "b", Kind: Dir, Mode: 0o755}}}).Encode()
	d, err := ParseDelta(good)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "b\n"}, d.Paths())
	for _, bad := range []string{"", "polis-delta 2\n", "polis-delta 1\n", deltaHeader + "- b\n- a\n" + header, deltaHeader + "- ../x\n" + header, deltaHeader + "- a\\x\n" + header, deltaHeader + "- a", string(good[:len(good)-1])} {
		_, err := ParseDelta([]byte(bad))
		require.Error(t, err, "%q", bad)
	}
}

func FuzzParseDelta(f *testing.F) {
	f.Add((&Delta{Cleared: []string{"a"}, Entries: []Entry{{Path: "b", Kind: Dir}}}).Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if d, err := ParseDelta(b); err == nil {
			require.Equal(t, string(b), string(d.Encode()))
		}
	})
}

func TestAFileThatCanStillBeWrittenIsNoted(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []string{"open", "mapped", "closed", "linked"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, n), []byte("content"), 0o600))
	}
	require.NoError(t, os.Link(filepath.Join(dir, "linked"), filepath.Join(dir, "linked2")))
	open, err := os.OpenFile(filepath.Join(dir, "open"), os.O_WRONLY, 0)
	require.NoError(t, err)
	defer open.Close()
	f, err := os.OpenFile(filepath.Join(dir, "mapped"), os.O_RDWR, 0)
	require.NoError(t, err)
	m, err := unix.Mmap(int(f.Fd()), 0, 4, unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	defer unix.Munmap(m) //nolint:errcheck // the process ends
	require.NoError(t, f.Close())
	root, err := os.Open(dir)
	require.NoError(t, err)
	defer root.Close()
	s := &Scan{Root: root, Written: root, Sink: Hashes{}}
	_, err = s.Run(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"open", "mapped"}, s.Writable)
	require.ElementsMatch(t, []string{"linked", "linked2"}, s.Linked)
}
