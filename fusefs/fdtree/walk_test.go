package fdtree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// walkAll returns how many objects there are, and the depth of the deepest.
func walkAll(t *testing.T, dir string) (n, deepest int) {
	t.Helper()
	f, err := os.Open(dir)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, Walk(t.Context(), int(f.Fd()), func(e *Entry) error {
		n, deepest = n+1, max(deepest, e.Depth)
		return nil
	}))
	return n, deepest
}

func TestEveryNameIsMetOnce(t *testing.T) {
	dir := t.TempDir()
	want := map[string]int{}
	for _, p := range []string{"a", "b/c", "b/d/e", "not-\xff-utf8/f", "not-\xff-utf8/g\xfe\n", "..data/x"} {
		write(t, filepath.Join(dir, p))
		want[filepath.Base(p)]++
		if d := filepath.Dir(p); d != "." {
			want[filepath.Base(d)] = 1
		}
	}
	require.NoError(t, os.Symlink("/", filepath.Join(dir, "link")))
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	want["link"], want["fifo"], want["."], want["b"] = 1, 1, 1, 1
	for i := range batch + 10 {
		name := strconv.Itoa(i) + "~"
		require.NoError(t, os.WriteFile(filepath.Join(dir, "b", name), nil, 0o600))
		want[name] = 1
	}
	f, err := os.Open(dir)
	require.NoError(t, err)
	defer f.Close()
	got := map[string]int{}
	require.NoError(t, Walk(t.Context(), int(f.Fd()), func(e *Entry) error {
		got[e.Name]++
		var st unix.Stat_t
		require.NoError(t, unix.Fstatat(e.Dir, e.Name, &st, unix.AT_SYMLINK_NOFOLLOW))
		require.Equal(t, st.Ino, e.Stat.Ino)
		return nil
	}))
	require.Equal(t, want, got)

	stop := errors.New("enough")
	require.ErrorIs(t, Walk(t.Context(), int(f.Fd()), func(*Entry) error { return stop }), stop)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	require.ErrorIs(t, Walk(ctx, int(f.Fd()), func(*Entry) error { return nil }), stop)
}

// However deep a tree, it is walked with few descriptors: with two branches at
// every level, so that each directory is come back to.
func TestADeepTreeIsWalkedWithFewDescriptors(t *testing.T) {
	dir := t.TempDir()
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Close(at)) }()
	const levels = 400
	for range levels {
		for _, side := range []string{"a", "a name of some length, in which there is nothing", "z"} {
			require.NoError(t, unix.Mkdirat(at, side, 0o700))
		}
		next, err := unix.Openat(at, "a name of some length, in which there is nothing", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Close(at))
		at = next
	}
	most := 0
	f, err := os.Open(dir)
	require.NoError(t, err)
	defer f.Close()
	n := 0
	require.NoError(t, Walk(t.Context(), int(f.Fd()), func(e *Entry) error {
		n++
		most = max(most, e.Dir)
		return nil
	}))
	require.Equal(t, 1+3*levels, n)
	require.Less(t, most, 200, "the highest descriptor")
	require.NoError(t, RemoveAll(t.Context(), filepath.Join(dir, "a name of some length, in which there is nothing")))
}

// A directory that is moved away while the walk is below it is found again, and
// what is beside it is not left out.
func TestAWalkContinuesThoughDirectoriesMove(t *testing.T) {
	dir := t.TempDir()
	at := dir
	for i := range maxDepth + 20 {
		at = filepath.Join(at, "d")
		require.NoError(t, os.MkdirAll(at, 0o700))
		require.NoError(t, os.Mkdir(filepath.Join(at, "x"+strconv.Itoa(i)), 0o700))
		require.NoError(t, os.Mkdir(filepath.Join(at, "~"+strconv.Itoa(i)), 0o700))
	}
	all, deepest := walkAll(t, dir)
	require.Equal(t, 1+3*(maxDepth+20), all)
	f, err := os.Open(dir)
	require.NoError(t, err)
	defer f.Close()
	n, moved := 0, false
	require.NoError(t, Walk(t.Context(), int(f.Fd()), func(e *Entry) error {
		n++
		if e.Depth == deepest-1 && !moved {
			moved = true // the deepest directory but one goes to the top
			up, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(e.Dir))
			require.NoError(t, err)
			require.NoError(t, os.Rename(up, filepath.Join(dir, "away")))
		}
		return nil
	}))
	require.True(t, moved)
	require.GreaterOrEqual(t, n, all)
}
