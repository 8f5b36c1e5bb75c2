package base_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/git"
	"polis/daemon/git/base"
	"polis/internal/need"
)

const nobody = 65534

// fixture is a bare repository with two commits, and a store.
type fixture struct {
	t        *testing.T
	dir      string
	store    *base.Store
	one, two string // trees
	inUse    bool
	later    time.Duration // added to the clock
}

func (f *fixture) git(stdin string, args ...string) string {
	f.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_DIR=" + filepath.Join(f.dir, "bare.git")}
	cmd.Stdin = strings.NewReader(stdin)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(f.t, err, "git %v: %s", args, errs.String())
	return strings.TrimSpace(string(out))
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	need.Root(t)
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		require.NoError(t, os.Chmod(d, 0o755))
	}
	f := &fixture{t: t, dir: dir}
	f.git("", "init", "-q", "--bare", filepath.Join(dir, "bare.git"))
	blob := func(text string) string { return f.git(text, "hash-object", "-w", "--stdin") }
	sub := f.git("100644 blob "+blob("in\n")+"\tin\n120000 blob "+blob("../run")+"\tlink\n", "mktree")
	f.one = f.git("100644 blob "+blob("one\n")+"\tfile\n100755 blob "+blob("#!\n")+"\trun\n040000 tree "+sub+"\tsub\n", "mktree")
	f.two = f.git("100644 blob "+blob("two\n")+"\tfile\n", "mktree")
	require.NoError(t, exec.Command("chown", "-R", "65534:65534", filepath.Join(dir, "bare.git")).Run())
	f.open()
	return f
}

// open makes a store as a restarted polisd does.
func (f *fixture) open() {
	f.store = base.New(base.Config{Dir: filepath.Join(f.dir, "bases"), UID: nobody, GID: nobody,
		Repo: git.Repo{Runner: &git.Runner{UID: nobody, GID: nobody}, Dir: filepath.Join(f.dir, "bare.git")},
		Scratch: func() (string, error) {
			tmp, err := os.MkdirTemp(f.dir, "save-")
			return tmp, errors.Join(err, os.Chown(tmp, nobody, nobody))
		},
		InUse: func(string) (bool, error) { return f.inUse, nil },
		Now:   func() time.Time { return time.Now().Add(f.later) }})
}

func (f *fixture) use(id string) base.Base {
	f.t.Helper()
	var got base.Base
	require.NoError(f.t, f.store.Use(f.t.Context(), id, func(b base.Base) error { got = b; return nil }))
	return got
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

func TestABaseHasTheFilesOfItsTree(t *testing.T) {
	f := newFixture(t)
	b := f.use(f.one)
	require.Equal(t, "one\n", read(t, filepath.Join(b.Tree, "file")))
	require.Equal(t, "in\n", read(t, filepath.Join(b.Tree, "sub/in")))
	to, err := os.Readlink(filepath.Join(b.Tree, "sub/link"))
	require.NoError(t, err)
	require.Equal(t, "../run", to)
	var st unix.Stat_t
	require.NoError(t, unix.Stat(filepath.Join(b.Tree, "run"), &st))
	require.Equal(t, []uint32{0o755, nobody, nobody}, []uint32{st.Mode & 0o777, st.Uid, st.Gid})
	require.NoError(t, unix.Stat(filepath.Join(f.dir, "bases"), &st))
	require.Equal(t, []uint32{0o700, 0}, []uint32{st.Mode & 0o777, st.Uid}, "only root reaches the bases")

	// The index is complete, with the stat data of the files: diff-files reads none of them.
	cmd := exec.Command("git", "diff-files", "--name-only")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GIT_DIR=" + filepath.Join(f.dir, "bare.git"), "GIT_INDEX_FILE=" + b.Index, "GIT_WORK_TREE=" + b.Tree,
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Empty(t, string(out))

	require.NoError(t, unix.Stat(filepath.Join(b.Tree, "file"), &st))
	again := f.use(f.one)
	var st2 unix.Stat_t
	require.NoError(t, unix.Stat(filepath.Join(again.Tree, "file"), &st2))
	require.Equal(t, st.Ino, st2.Ino, "it is made once")
	require.Error(t, f.store.Use(t.Context(), "../bare.git", nil))
	require.Empty(t, left(t, f.dir, "save-"))
}

// left lists what remains of temporary directories.
func left(t *testing.T, dir, prefix string) []string {
	names, err := filepath.Glob(filepath.Join(dir, prefix+"*"))
	require.NoError(t, err)
	return names
}

func TestParallelUsersMakeOneBase(t *testing.T) {
	f := newFixture(t)
	var group sync.WaitGroup
	inodes := make([]uint64, 4)
	for i := range inodes {
		group.Go(func() {
			err := f.store.Use(t.Context(), f.one, func(b base.Base) error {
				var st unix.Stat_t
				err := unix.Stat(filepath.Join(b.Tree, "file"), &st)
				inodes[i] = st.Ino
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	require.NotZero(t, inodes[0])
	for _, ino := range inodes {
		require.Equal(t, inodes[0], ino)
	}
}

// A polisd that is killed leaves a part; the next one writes what is missing or torn, and no more.
func TestAnInterruptedCheckoutContinues(t *testing.T) {
	f := newFixture(t)
	b := f.use(f.one)
	made := filepath.Dir(b.Tree)
	require.NoError(t, os.Remove(filepath.Join(made, "record")))
	require.NoError(t, os.Remove(b.Index))
	require.NoError(t, os.Remove(filepath.Join(b.Tree, "sub/in")))
	require.NoError(t, os.WriteFile(filepath.Join(b.Tree, "file"), []byte("o"), 0o644))
	require.NoError(t, os.Rename(made, made+".new"))
	var before, after unix.Stat_t
	require.NoError(t, unix.Stat(filepath.Join(made+".new", "tree/run"), &before))
	f.open()
	b = f.use(f.one)
	require.Equal(t, "one\n", read(t, filepath.Join(b.Tree, "file")))
	require.Equal(t, "in\n", read(t, filepath.Join(b.Tree, "sub/in")))
	require.NoError(t, unix.Stat(filepath.Join(b.Tree, "run"), &after))
	require.Equal(t, before.Ino, after.Ino, "what was whole is not written again")
	require.NoDirExists(t, made+".new")
}

func TestDamageIsFoundAndMended(t *testing.T) {
	f := newFixture(t)
	b := f.use(f.one)
	damage := func() {
		require.NoError(t, os.WriteFile(filepath.Join(b.Tree, "file"), []byte("bad\n"), 0o644)) // of the same size
		require.NoError(t, os.Remove(filepath.Join(b.Tree, "sub/link")))
		require.NoError(t, os.MkdirAll(filepath.Join(b.Tree, "sub/link/dir"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(b.Tree, "more"), nil, 0o644))
	}
	damage()
	f.inUse = true
	_, err := f.store.Check(t.Context(), f.one)
	require.ErrorIs(t, err, base.ErrInUse, "no file changes below a mounted overlay")
	f.inUse = false
	differ, err := f.store.Check(t.Context(), f.one)
	require.NoError(t, err)
	require.Subset(t, differ, []string{"file", "sub/link", "more"})
	require.Equal(t, "one\n", read(t, filepath.Join(b.Tree, "file")))
	require.NoFileExists(t, filepath.Join(b.Tree, "more"))
	to, err := os.Readlink(filepath.Join(b.Tree, "sub/link"))
	require.NoError(t, err)
	require.Equal(t, "../run", to)
	differ, err = f.store.Check(t.Context(), f.one)
	require.NoError(t, err)
	require.Empty(t, differ)

	// A base whose record is lost or torn, as a crash of the machine leaves it, is checked before
	// its next use.
	for _, text := range []string{"", "{", `{"version":1,"tree":"` + f.two + `"}`} {
		damage()
		require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(b.Tree), "record"), []byte(text), 0o644))
		f.open()
		f.use(f.one)
		require.Equal(t, "one\n", read(t, filepath.Join(b.Tree, "file")))
	}
}

func TestABaseIsVerifiedFromTimeToTime(t *testing.T) {
	f := newFixture(t)
	b := f.use(f.one)
	file, record := filepath.Join(b.Tree, "file"), filepath.Join(filepath.Dir(b.Tree), "record")
	require.NoError(t, os.WriteFile(file, []byte("bad\n"), 0o644)) // of the same size
	verify := func() { t.Helper(); require.NoError(t, f.store.Verify(t.Context(), time.Hour)) }
	verify()
	require.Equal(t, "bad\n", read(t, file), "it is not time yet")
	f.later = 2 * time.Hour
	f.inUse = true
	before := read(t, record)
	verify()
	require.Equal(t, "bad\n", read(t, file), "nothing is written below a mount")
	require.Equal(t, before, read(t, record), "the base stays valid for its agents, and due")
	f.inUse = false
	verify()
	require.Equal(t, "one\n", read(t, file))
	before = read(t, record)
	verify()
	require.Equal(t, before, read(t, record), "it was written just now")
	f.later, f.inUse = 4*time.Hour, true
	verify()
	require.NotEqual(t, before, read(t, record), "a whole base in use was compared")
	require.Empty(t, left(t, f.dir, "save-"))

	// One without a valid record is left to its next use.
	require.NoError(t, os.Remove(record))
	require.NoError(t, os.WriteFile(file, []byte("bad\n"), 0o644))
	f.later, f.inUse = 6*time.Hour, false
	verify()
	require.Equal(t, "bad\n", read(t, file))
	f.use(f.one)
	require.Equal(t, "one\n", read(t, file))
}

func TestABaseThatNobodyUsesIsRemoved(t *testing.T) {
	f := newFixture(t)
	one, two := f.use(f.one), f.use(f.two)
	require.NoError(t, f.store.Sync(t.Context()))
	require.NoError(t, os.MkdirAll(filepath.Join(f.dir, "bases", strings.Repeat("a", 40)+".new", "tree"), 0o755))
	removed, err := f.store.Collect(t.Context(), func(id string) (bool, error) { return id == f.one, nil })
	require.NoError(t, err)
	require.ElementsMatch(t, []string{f.two, strings.Repeat("a", 40)}, removed)
	require.DirExists(t, one.Tree)
	require.NoDirExists(t, filepath.Dir(two.Tree))

	unknown := errors.New("cannot be read")
	removed, err = f.store.Collect(t.Context(), func(string) (bool, error) { return false, unknown })
	require.ErrorIs(t, err, unknown)
	require.Empty(t, removed, "unknown is in use")

	// A base that is being claimed is not removed.
	claiming, claimed := make(chan struct{}), make(chan struct{})
	var group sync.WaitGroup
	used := false
	group.Go(func() {
		err := f.store.Use(t.Context(), f.one, func(base.Base) error {
			close(claiming)
			<-claimed
			used = true
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-claiming
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = f.store.Collect(ctx, func(string) (bool, error) { return false, nil })
	require.ErrorIs(t, err, context.Canceled, "it waits for the claim")
	close(claimed)
	removed, err = f.store.Collect(t.Context(), func(string) (bool, error) { return used, nil })
	require.NoError(t, err)
	require.Empty(t, removed)
	group.Wait()
}
