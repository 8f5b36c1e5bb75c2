package fusefs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// keepingGuard lets the kernel cache names and attributes.
type keepingGuard struct {
	testGuard
	keep map[string]Keep // by the first component; nothing for others
}

func (g *keepingGuard) Keep(path string) Keep {
	top, _, below := strings.Cut(path, "/")
	if below {
		top += "/"
	}
	return g.keep[top]
}

const sharedDir = KeepName | KeepMode | KeepSharedDir

// A directory that others removed, or removed and made again, is not what is
// worked in, whatever the call.
func TestALooseDirectoryIsWhatItsNameStandsFor(t *testing.T) {
	for name, c := range map[string]struct {
		do func(v *view) error
		// once: the first answer may be ESTALE.
		once bool
	}{
		"stat":     {func(v *view) error { _, err := os.Stat(v.in("d/old")); return err }, false},
		"open":     {func(v *view) error { return readable(v.in("d/old")) }, false},
		"create":   {func(v *view) error { return openClose(v.in("d/new"), unix.O_CREAT|unix.O_WRONLY, 0o644) }, false},
		"mkdir":    {func(v *view) error { return os.Mkdir(v.in("d/new"), 0o755) }, true},
		"itself":   {func(v *view) error { return os.Chmod(v.in("d"), 0o750) }, false},
		"symlink":  {func(v *view) error { return os.Symlink("old", v.in("d/new")) }, true},
		"link":     {func(v *view) error { return os.Link(v.in("f"), v.in("d/new")) }, true},
		"link it":  {func(v *view) error { return os.Link(v.in("d/old"), v.in("new")) }, false},
		"rename":   {func(v *view) error { return os.Rename(v.in("f"), v.in("d/new")) }, false},
		"move out": {func(v *view) error { return os.Rename(v.in("d/old"), v.in("new")) }, false},
		"unlink":   {func(v *view) error { return os.Remove(v.in("d/old")) }, false},
		"list": {func(v *view) error {
			entries, err := os.ReadDir(v.in("d"))
			if err == nil && (len(entries) != 1 || entries[0].Name() != "old") {
				return syscall.EBADMSG
			}
			return err
		}, false},
	} {
		for _, again := range []bool{false, true} {
			t.Run(name+map[bool]string{false: ", gone", true: ", made again"}[again], func(t *testing.T) {
				v := mountWith(t, &keepingGuard{keep: map[string]Keep{"": KeepMode, "d": sharedDir}})
				require.NoError(t, os.Mkdir(v.raw("d"), 0o755))
				write(t, v.raw("d/old"), "1")
				write(t, v.raw("f"), "f")
				require.NoError(t, readable(v.in("d/old")))
				require.NoError(t, os.RemoveAll(v.raw("d")))
				if again {
					require.NoError(t, os.Mkdir(v.raw("d"), 0o755))
					write(t, v.raw("d/old"), "2")
				}
				err := c.do(v)
				for end := time.Now().Add(10 * time.Second); c.once && err != nil && errors.Is(err, syscall.ESTALE) && time.Now().Before(end); err = c.do(v) {
					time.Sleep(time.Millisecond)
				}
				if !again {
					require.ErrorIs(t, err, syscall.ENOENT)
					return
				}
				require.NoError(t, err)
				if _, err := os.Lstat(v.in("d/new")); err == nil {
					_, err := os.Lstat(v.raw("d/new"))
					require.NoError(t, err, "it was made where nobody finds it")
				}
			})
		}
	}
}

// The name is not asked for again as long as it stands for the directory.
func TestALooseDirectoryIsKept(t *testing.T) {
	v := mountWith(t, &keepingGuard{keep: map[string]Keep{"": KeepMode, "d": sharedDir}})
	require.NoError(t, os.Mkdir(v.raw("d"), 0o755))
	write(t, v.raw("d/f"), "1")
	require.NoError(t, readable(v.in("d/f")))
	before := v.fs.Requests()
	const times = 50
	for range times {
		_, err := os.Lstat(v.in("d/f"))
		require.NoError(t, err)
		_, err = os.Lstat(v.in("d/g"))
		require.ErrorIs(t, err, syscall.ENOENT)
	}
	require.Equal(t, 2*times, int(v.fs.Requests()["LOOKUP"]-before["LOOKUP"]), "one for each name in it")
}

// A lookup of what others change returns the attributes with the name: they
// are those of this moment, and need not be asked for once more.
func TestALookupBringsTheAttributesAlong(t *testing.T) {
	v := mountWith(t, &keepingGuard{keep: map[string]Keep{"": KeepMode}})
	require.NoError(t, os.Mkdir(v.raw("d"), 0o755))
	write(t, v.raw("d/f"), "")
	_, err := os.Lstat(v.in("d/f"))
	require.NoError(t, err)
	least := uint64(1 << 60)
	for i := range 20 {
		require.NoError(t, os.Truncate(v.raw("d/f"), int64(i)))
		before := v.fs.Requests()["GETATTR"]
		st, err := os.Lstat(v.in("d/f"))
		require.NoError(t, err)
		require.EqualValues(t, i, st.Size())
		least = min(least, v.fs.Requests()["GETATTR"]-before)
	}
	require.Zero(t, least, "GETATTR though nothing took longer than a tick")
}

// A name that is moved to where names are not kept is not kept there.
func TestAMovedNameIsKeptAsItsNewPlaceSays(t *testing.T) {
	v := mountWith(t, &keepingGuard{keep: map[string]Keep{"": KeepMode, "d": sharedDir, "e": sharedDir, "d/": KeepName | KeepAttr}})
	for _, d := range []string{"d", "e"} {
		require.NoError(t, os.Mkdir(v.raw(d), 0o755))
	}
	write(t, v.in("d/f"), "old")
	require.NoError(t, os.Rename(v.in("d/f"), v.in("e/f")))
	require.NoError(t, os.Remove(v.raw("e/f")))
	require.Eventually(t, func() bool { return errors.Is(unix.Access(v.in("e/f"), unix.F_OK), syscall.ENOENT) }, 30*time.Second, time.Millisecond)
}

// Permissions that are removed behind the view are gone at once where the path is looked up each
// time, after a second elsewhere, and at once when the view is notified.
func TestRightsTakenAwayAreGone(t *testing.T) {
	for name, c := range map[string]struct {
		keep   Keep
		tell   bool
		within time.Duration
	}{
		"asked for each time":   {0, false, 0},
		"its mode is kept":      {KeepName | KeepMode, false, keepModeFor},
		"and the view notified": {KeepName | KeepMode, true, 0},
		"all is kept":           {KeepAll, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			v := mountWith(t, &keepingGuard{keep: map[string]Keep{"": KeepMode, "d": c.keep}})
			openDir(t, v.in("d"), 0o777)
			if c.within > 0 {
				time.Sleep(2*keepModeFor + 100*time.Millisecond) // settled
			}
			overwrite := func(file string) error { return as(t, nobody, nobody, "append", v.in("d/"+file)) }
			for _, f := range []string{"a", "b"} {
				write(t, filepath.Join(v.raw("d"), f), "x")
				require.NoError(t, os.Chmod(v.raw("d/"+f), 0o666))
				require.NoError(t, overwrite(f))
			}
			start := time.Now()
			require.NoError(t, os.Chmod(v.raw("d"), 0o700))
			if c.tell {
				v.fs.InvalidatePath("d")
			}
			// The one that counts begins when the time is over: each needs a process.
			began := time.Since(start)
			err := overwrite("a")
			for err == nil && began < c.within+500*time.Millisecond && c.within > 0 {
				time.Sleep(20 * time.Millisecond)
				began = time.Since(start)
				err = overwrite("a")
			}
			require.Error(t, err)
			require.NoError(t, os.Chmod(v.raw("d"), 0o777))
			require.NoError(t, overwrite("b"), "the kernel asks before it refuses")
		})
	}
}

// A query of the time of birth makes the kernel keep nothing for longer.
func TestATimeOfBirthIsNotKeptLonger(t *testing.T) {
	v := mountWith(t, &keepingGuard{keep: map[string]Keep{"": KeepMode}})
	write(t, v.raw("f"), "x")
	fd, err := unix.Open(v.in("f"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	var stx unix.Statx_t
	require.NoError(t, unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &stx))
	require.EqualValues(t, 1, v.fs.Requests()["STATX"])
	require.NoError(t, os.Truncate(v.raw("f"), 77))
	require.Eventually(t, func() bool {
		var st unix.Stat_t
		return unix.Fstat(fd, &st) == nil && st.Size == 77
	}, 20*time.Second, 10*time.Millisecond)
}

type lastingGuard struct{ testGuard }

func (*lastingGuard) Lasts(path string) bool { return strings.HasPrefix(path, "kept/") }

// A name that lasts is made once.
func TestANameThatLastsIsNotReplaced(t *testing.T) {
	v := mountWith(t, &lastingGuard{})
	require.NoError(t, os.Mkdir(v.raw("kept"), 0o755))
	for _, f := range []string{"a", "b", "free"} {
		write(t, v.in(f), f)
	}
	require.NoError(t, os.Rename(v.in("a"), v.in("kept/n")))
	require.ErrorIs(t, os.Rename(v.in("b"), v.in("kept/n")), syscall.EEXIST)
	require.Equal(t, "a", content(t, v.in("kept/n")))
	require.Equal(t, "a", content(t, v.raw("kept/n")))
	require.NoError(t, os.Rename(v.in("b"), v.in("free")), "others do not")
	require.Equal(t, "b", content(t, v.in("free")))
}
