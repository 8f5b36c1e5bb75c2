package view

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"polis/fusefs"
	"polis/fusefs/policy"
	"polis/fusefs/tempfile"
)

// tempView is a mounted view with temporary files, which can be mounted again.
type tempView struct {
	t         *testing.T
	back, mnt string
	keep      string // the directory of the record
	off       bool   // it can make no temporary files
	locker    Locker // nil: all leases are free
	rules     policy.Rules
	asked     atomic.Int32
	mu        sync.Mutex
	refused   []Denial
	*setup
	table *tempfile.Table
	view  *fusefs.FS
}

var oneFile = policy.Rules{Write: []string{"src/f", "src/g"}}

func newTempView(t *testing.T, rules policy.Rules) *tempView {
	t.Helper()
	needRoot(t)
	top := t.TempDir()
	v := &tempView{t: t, back: filepath.Join(top, "back"), mnt: filepath.Join(top, "mnt"), keep: filepath.Join(top, "keep"), rules: rules}
	for _, dir := range []string{"back/src/sub", "back/other", "mnt", "keep"} {
		require.NoError(t, os.MkdirAll(filepath.Join(top, dir), 0o755))
	}
	for _, name := range []string{"src/f", "src/g", "src/x", "src/sub/y", "other/z", "top"} {
		require.NoError(t, os.WriteFile(filepath.Join(v.back, name), []byte(name), 0o644))
	}
	v.mount()
	t.Cleanup(v.unmount)
	return v
}

func (v *tempView) mount() {
	v.t.Helper()
	root, err := os.Open(v.back)
	require.NoError(v.t, err)
	defer root.Close()
	v.table, err = tempfile.Open(int(root.Fd()), func() (int, error) { return unix.Open(v.keep, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	require.NoError(v.t, err)
	v.setup = newGuard(v.t, v.rules, func(c *Config) {
		c.RootFD, c.Temps, c.NoTemps, c.OnDenial, c.GitFile = int(root.Fd()), v.table, v.off, v.noteDenial, false
		if v.locker != nil {
			c.Locker = v.locker
		}
		c.Log = slog.New(slog.DiscardHandler)
		c.Asker = askerFunc(func(context.Context, Request) (Verdict, error) { v.asked.Add(1); return Verdict{}, nil })
	})
	v.view, err = fusefs.New(fusefs.Config{Roots: []int{int(root.Fd())}, Guard: v.Guard, Mountpoint: v.mnt, FsName: "polis-test", Log: slog.New(slog.DiscardHandler), NoPassthrough: v.locker != nil})
	require.NoError(v.t, err)
	require.NoError(v.t, v.view.Mount(v.t.Context()))
}

func (v *tempView) noteDenial(d Denial) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.refused = append(v.refused, d)
}

// denials are those since it was called last.
func (v *tempView) denials() []Denial {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := v.refused
	v.refused = nil
	return all
}

func (v *tempView) unmount() {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	require.NoError(v.t, v.view.Unmount(ctx))
	require.NoError(v.t, v.Close())
	require.NoError(v.t, v.table.Close())
}

// again is the view of another process.
func (v *tempView) again() {
	v.unmount()
	v.mount()
}

func (v *tempView) swap(r policy.Rules) {
	v.t.Helper()
	set, err := policy.Compile(r)
	require.NoError(v.t, err)
	v.rules = r
	v.SetPolicy(set)
	v.view.InvalidateAll()
}

func (v *tempView) at(name string) string { return filepath.Join(v.mnt, name) }

func TestATemporaryFileIsUsedAsAnyOther(t *testing.T) {
	v := newTempView(t, oneFile)
	f, err := os.OpenFile(v.at("src/n"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	require.NoError(t, err)
	_, err = f.WriteString("new")
	require.NoError(t, err)
	require.NoError(t, f.Chmod(0o755))
	require.NoError(t, f.Sync())
	_, err = os.OpenFile(v.at("src/n"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	require.ErrorIs(t, err, unix.EEXIST)
	require.NoError(t, unix.Setxattr(v.at("src/n"), "user.mine", []byte("x"), 0))
	require.NoError(t, os.Rename(v.at("src/n"), v.at("src/f")))
	_, err = f.WriteString("er")
	require.NoError(t, err, "it is open")
	require.NoError(t, f.Close())
	b, err := os.ReadFile(v.at("src/f"))
	require.NoError(t, err)
	require.Equal(t, "newer", string(b))
	fi, err := os.Stat(v.at("src/f"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), fi.Mode())
	_, err = unix.Getxattr(filepath.Join(v.back, "src/f"), tempfile.Attribute, make([]byte, 100))
	require.ErrorIs(t, err, unix.ENODATA, "the mark is gone")

	// One that is removed while it is open can be used on.
	f, err = os.OpenFile(v.at("src/n"), os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	require.NoError(t, os.Remove(v.at("src/n")))
	_, err = f.WriteString("nameless")
	require.NoError(t, err)
	_, err = f.ReadAt(make([]byte, 8), 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())

	// By mknod, and by a link.
	require.NoError(t, unix.Mknod(v.at("src/m"), unix.S_IFREG|0o644, 0))
	require.NoError(t, os.WriteFile(v.at("src/m"), []byte("m"), 0o644))
	require.NoError(t, os.Remove(v.at("src/g")))
	require.NoError(t, os.Link(v.at("src/m"), v.at("src/g")))
	require.NoError(t, os.Rename(v.at("src/m"), v.at("src/g")), "rename(2) does nothing: they are one file")
	require.NoError(t, os.Remove(v.at("src/m")))
	require.Empty(t, v.table.Paths())
	for _, err := range []error{unix.Mkfifo(v.at("src/n"), 0o644), os.Symlink("f", v.at("src/n")), os.Mkdir(v.at("src/n"), 0o755)} {
		require.ErrorIs(t, err, unix.EACCES)
	}
}

func TestNoProgramSeesOrSetsTheMark(t *testing.T) {
	v := newTempView(t, oneFile)
	require.NoError(t, os.WriteFile(v.at("src/n"), nil, 0o644))
	buf := make([]byte, 1000)
	_, err := unix.Getxattr(v.at("src/n"), tempfile.Attribute, buf)
	require.ErrorIs(t, err, unix.ENODATA)
	size, err := unix.Listxattr(v.at("src/n"), buf)
	require.NoError(t, err)
	require.NotContains(t, string(buf[:size]), "polis")
	require.ErrorIs(t, unix.Removexattr(v.at("src/n"), tempfile.Attribute), unix.EPERM)
	require.ErrorIs(t, unix.Setxattr(v.at("src/f"), tempfile.Attribute, tempfile.Mark("src/f", ""), 0), unix.EPERM)
	_, err = unix.Getxattr(filepath.Join(v.back, "src/n"), tempfile.Attribute, buf)
	require.NoError(t, err)
}

func TestAnotherNameOfATemporaryFileIsNone(t *testing.T) {
	v := newTempView(t, policy.Rules{Write: []string{"src/f", "src/f2"}})
	require.NoError(t, os.Link(v.at("src/f"), v.at("src/f2")))
	require.NoError(t, os.Rename(v.at("src/f"), v.at("src/n")))
	require.NoError(t, os.Remove(v.at("src/n")))
	v.swap(oneFile)
	require.ErrorIs(t, os.Remove(v.at("src/f2")), unix.EACCES)
	v.again()
	require.ErrorIs(t, os.Remove(v.at("src/f2")), unix.EACCES)
	require.ErrorIs(t, os.WriteFile(v.at("src/f2"), nil, 0), unix.EACCES)
}

func TestARuleThatAsksAppliesToARenamedFileAlsoAfterARestart(t *testing.T) {
	v := newTempView(t, oneFile)
	require.NoError(t, os.Rename(v.at("src/f"), v.at("src/n")))
	b, err := os.ReadFile(v.at("src/n"))
	require.NoError(t, err)
	require.Equal(t, "src/f", string(b))
	asks := policy.Rules{Write: []string{"src/g"}, Ask: []string{"src/f"}}
	v.swap(asks)
	_, err = os.ReadFile(v.at("src/n"))
	require.ErrorIs(t, err, unix.EACCES)
	v.again()
	_, err = os.ReadFile(v.at("src/n"))
	require.ErrorIs(t, err, unix.EACCES)
	require.Equal(t, int32(2), v.asked.Load())
	require.ErrorIs(t, os.Rename(v.at("src/n"), v.at("src/g")), unix.EACCES)
	require.ErrorIs(t, os.Remove(v.at("src/n")), unix.EACCES)
	require.Equal(t, int32(4), v.asked.Load())

	// The record is lost with the machine, the mark of the file is not.
	v.unmount()
	removed := 0
	require.NoError(t, filepath.WalkDir(filepath.Dir(v.back), func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == tempfile.RecordName {
			removed++
			return os.Remove(p)
		}
		return err
	}))
	require.Equal(t, 1, removed)
	v.mount()
	_, err = os.ReadFile(v.at("src/n"))
	require.ErrorIs(t, err, unix.EACCES)
	require.Equal(t, int32(5), v.asked.Load())
}

// names are those of a directory of the tree below the view, with the content and inode of each file.
func (v *tempView) names(t require.TestingT, top string) map[string]string {
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(filepath.Join(v.back, top), func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		text := "special"
		if d.Type().IsRegular() {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			text = string(b)
		}
		out[strings.TrimPrefix(p, v.back+"/"+top)] = fmt.Sprint(st.Ino, " ", text)
		return nil
	}))
	return out
}

// Whatever a program does, files that the rules do not permit stay as they are, and a temporary file has no name but
// its own and those that the rules permit.
func TestRandomOperationsKeepTemporaryFilesInTheirPlace(t *testing.T) {
	v := newTempView(t, oneFile)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++ // each has a directory of its own
		top := fmt.Sprintf("c%d/", n)
		for _, name := range []string{"src/f", "src/g", "src/x", "src/sub/y", "other/z", "top"} {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(v.back, top+name)), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(v.back, top+name), []byte(name), 0o644))
		}
		v.randomTemps(rt, top)
	})
}

func (v *tempView) randomTemps(t *rapid.T, top string) {
	fixed := []string{"src/x", "src/sub/y", "other/z", "top"}
	before := v.names(t, top)
	name := rapid.SampledFrom([]string{"src/f", "src/f", "src/g", "src/n", "src/n", "src/m", "src/x", "src/sub/n", "src/sub/y", "other/n", "other/z", "n", "top"})
	single, wider := policy.Rules{Write: []string{top + "src/f"}}, policy.Rules{Write: []string{top + "src/f", top + "src/g"}}
	asks := policy.Rules{Write: wider.Write, Ask: []string{top + "src/m"}}
	rules := rapid.SampledFrom([]policy.Rules{wider, single, asks})
	v.swap(wider)
	for range rapid.IntRange(5, 40).Draw(t, "steps") {
		a, b := v.at(top+name.Draw(t, "a")), v.at(top+name.Draw(t, "b"))
		op := rapid.SampledFrom([]string{"create", "create", "write", "rename", "rename", "rename", "link", "link", "unlink", "exchange", "noreplace",
			"symlink", "fifo", "mkdir", "truncate", "chmod", "xattr", "rules", "restart"}).Draw(t, "op")
		if op == "restart" && rapid.IntRange(0, 9).Draw(t, "rarely") > 0 {
			continue
		}
		v.random(t, op, a, b, func() policy.Rules { return rules.Draw(t, "rules") })
		now := v.names(t, top)
		inodes := map[string][]string{}
		for path, has := range now {
			ino, text, _ := strings.Cut(has, " ")
			inodes[ino] = append(inodes[ino], path)
			require.NotEqual(t, "special", text, path)
			require.True(t, slices.Contains(fixed, path) || slices.Contains([]string{"src/f", "src/g", "src/n", "src/m"}, path), "%s was made", path)
		}
		for _, path := range fixed {
			require.Equal(t, before[path], now[path], path)
		}
		for _, names := range inodes {
			if slices.Contains(names, "src/n") {
				require.NotContains(t, names, "src/m", "one file has two temporary names")
			}
		}
		for _, path := range []string{"src/n", "src/m"} {
			if _, there := now[path]; there {
				f := v.table.Look(top + path)
				require.NotNil(t, f, "%s has no mark", path)
				f.Close()
			}
		}
	}
}

// random does an operation. Whether it is refused is the guard's part.
func (v *tempView) random(t require.TestingT, op, a, b string, rules func() policy.Rules) {
	switch op {
	case "create":
		if f, err := os.OpenFile(a, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644); err == nil {
			_, err = f.WriteString("made")
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}
	case "write":
		_ = os.WriteFile(a, []byte("written"), 0o644)
	case "rename":
		_ = os.Rename(a, b)
	case "link":
		_ = os.Link(a, b)
	case "unlink":
		_ = os.Remove(a)
	case "exchange":
		_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	case "noreplace":
		_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_NOREPLACE)
	case "symlink":
		_ = os.Symlink("f", a+"-link")
	case "fifo":
		_ = unix.Mkfifo(a+"-pipe", 0o644)
	case "mkdir":
		_ = os.Mkdir(a+"-dir", 0o755)
	case "truncate":
		_ = os.Truncate(a, 0)
	case "chmod":
		_ = os.Chmod(a, 0o600)
	case "xattr":
		_ = unix.Setxattr(a, "user.x", []byte("x"), 0)
	case "restart":
		v.again()
	case "rules":
		v.swap(rules())
	}
}
