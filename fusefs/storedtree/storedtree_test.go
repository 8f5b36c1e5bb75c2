package storedtree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"polis/internal/need"
)

// objects is a store in a directory.
type objects struct{ dir string }

func (o objects) file(h Hash) string { return filepath.Join(o.dir, fmt.Sprintf("%x", h)) }

func (o objects) put(t require.TestingT, content []byte) Hash {
	h := sha256.Sum256(content)
	require.NoError(t, os.WriteFile(o.file(h), content, 0o600))
	return h
}

func (o objects) open(h Hash) (*os.File, error) { return os.Open(o.file(h)) }

func (o objects) text(t require.TestingT, path, content string) Entry {
	return Entry{Path: path, Type: unix.S_IFREG, Mode: 0o644, Hash: o.put(t, []byte(content)), Size: int64(len(content))}
}

func dir(path string) Entry { return Entry{Path: path, Type: unix.S_IFDIR, Mode: 0o755} }

// mounted mounts a tree for the time of the test.
func mounted(t *testing.T, o objects, entries ...Entry) (string, *FS) {
	return mountedWith(t, o, nil, entries...)
}

func mountedWith(t *testing.T, o objects, r Rules, entries ...Entry) (string, *FS) {
	need.Root(t)
	at := t.TempDir()
	f, err := Mount(Config{Entries: entries, Open: o.open, RootMode: 0o755, Time: time.Unix(1_700_000_000, 0), Mountpoint: at, FsName: "storedtree-test", Rules: r, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = unix.Unmount(at, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) // EINVAL: the test did
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		require.NoError(t, f.Wait(ctx))
	})
	require.NoError(t, f.conn.Probe()) // this process opens files of the mount
	return at, f
}

func TestATreeIsServedAsItWasStored(t *testing.T) {
	o := objects{t.TempDir()}
	large := strings.Repeat("0123456789abcdef", 3*chunk/16) + "end"
	link := o.text(t, "d/link", "../a")
	link.Type = unix.S_IFLNK
	odd := "d/new\nline\xff"
	run := o.text(t, "run.sh", "#!/bin/sh\n")
	run.Mode = 0o4755
	at, f := mounted(t, o, o.text(t, "a", "one\n"), dir("d"), dir("d/empty"), link, o.text(t, odd, large), o.text(t, "none", ""), run)
	for path, want := range map[string]string{"a": "one\n", odd: large, "none": "", "d/link": "one\n"} {
		got, err := os.ReadFile(filepath.Join(at, path))
		require.NoError(t, err, path)
		require.Equal(t, want, string(got), path)
	}
	target, err := os.Readlink(filepath.Join(at, "d/link"))
	require.NoError(t, err)
	require.Equal(t, "../a", target)
	names := []string{}
	require.NoError(t, filepath.WalkDir(at, func(p string, _ fs.DirEntry, err error) error {
		names = append(names, strings.TrimPrefix(strings.TrimPrefix(p, at), "/"))
		return err
	}))
	sort.Strings(names)
	require.Equal(t, []string{"", "a", "d", "d/empty", "d/link", odd, "none", "run.sh"}, names)
	fi, err := os.Stat(filepath.Join(at, "run.sh"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o755)|fs.ModeSetuid, fi.Mode())
	require.Equal(t, int64(1_700_000_000), fi.ModTime().Unix())
	// A child that this process forks must not execute a file of the mount itself: this process has to
	// answer while it waits for the execve.
	out, err := exec.Command("/bin/sh", "-c", `exec "$0"`, filepath.Join(at, "run.sh")).CombinedOutput()
	require.Error(t, err, "noexec")
	require.Contains(t, string(out), "Permission denied")

	_, err = os.Stat(filepath.Join(at, "missing"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	tail := make([]byte, 10)
	g, err := os.Open(filepath.Join(at, odd))
	require.NoError(t, err)
	defer g.Close()
	n, err := g.ReadAt(tail, int64(len(large)-3))
	require.Equal(t, "end", string(tail[:n]))
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, g.Close())
	require.NoError(t, unix.Unmount(at, unix.MNT_DETACH))
	<-f.Done()
	require.Empty(t, f.open)
}

func TestNothingCanBeChanged(t *testing.T) {
	o := objects{t.TempDir()}
	at, _ := mounted(t, o, o.text(t, "a", "one\n"), dir("d"))
	a, d := filepath.Join(at, "a"), filepath.Join(at, "d")
	for name, do := range map[string]func() error{
		"write":    func() error { return os.WriteFile(a, nil, 0o644) },
		"append":   func() error { _, err := os.OpenFile(a, os.O_APPEND|os.O_WRONLY, 0); return err },
		"create":   func() error { return os.WriteFile(filepath.Join(d, "new"), nil, 0o644) },
		"mkdir":    func() error { return os.Mkdir(filepath.Join(d, "new"), 0o755) },
		"remove":   func() error { return os.Remove(a) },
		"rmdir":    func() error { return unix.Rmdir(d) },
		"rename":   func() error { return os.Rename(a, filepath.Join(d, "a")) },
		"link":     func() error { return os.Link(a, filepath.Join(d, "a")) },
		"symlink":  func() error { return os.Symlink("a", filepath.Join(d, "a")) },
		"chmod":    func() error { return os.Chmod(a, 0o777) },
		"chown":    func() error { return os.Chown(a, 1, 1) },
		"truncate": func() error { return os.Truncate(a, 0) },
		"times":    func() error { return os.Chtimes(a, time.Now(), time.Now()) },
		"xattr":    func() error { return unix.Setxattr(a, "user.x", []byte("x"), 0) },
		"mknod":    func() error { return unix.Mknod(filepath.Join(d, "p"), unix.S_IFIFO, 0) },
	} {
		require.ErrorIs(t, do(), unix.EROFS, name)
	}
	got, err := os.ReadFile(a)
	require.NoError(t, err)
	require.Equal(t, "one\n", string(got))
}

// TestDamagedContentIsAnErrorAndNeverWrongBytes: whatever happens to an object, before it is opened or while
// it is open.
func TestDamagedContentIsAnErrorAndNeverWrongBytes(t *testing.T) {
	good := strings.Repeat("good ", 3*chunk/5)
	for name, damage := range map[string]func(file string) error{
		"changed": func(f string) error { return os.WriteFile(f, []byte(strings.Replace(good, "good", "evil", 1)), 0o600) },
		"changed at its end": func(f string) error {
			return os.WriteFile(f, []byte(good[:len(good)-1]+"!"), 0o600)
		},
		"cut short": func(f string) error { return os.Truncate(f, int64(len(good)-1)) },
		"longer":    func(f string) error { return os.WriteFile(f, []byte(good+"x"), 0o600) },
		"empty":     func(f string) error { return os.Truncate(f, 0) },
		"missing":   os.Remove,
		"a directory": func(f string) error {
			if err := os.Remove(f); err != nil {
				return err
			}
			return os.Mkdir(f, 0o700)
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := objects{t.TempDir()}
			e, l := o.text(t, "f", good), o.text(t, "l", "target")
			l.Type = unix.S_IFLNK
			at, _ := mounted(t, o, e, l)
			require.NoError(t, damage(o.file(e.Hash)))
			_, err := os.ReadFile(filepath.Join(at, "f"))
			require.ErrorIs(t, err, unix.EIO)
			require.NoError(t, os.WriteFile(o.file(l.Hash), []byte("evil!!"), 0o600))
			_, err = os.Readlink(filepath.Join(at, "l"))
			require.ErrorIs(t, err, unix.EIO)
		})
		t.Run(name+" while it is open", func(t *testing.T) {
			o := objects{t.TempDir()}
			e := o.text(t, "f", good)
			at, _ := mounted(t, o, e)
			f, err := os.Open(filepath.Join(at, "f"))
			require.NoError(t, err)
			defer f.Close()
			require.NoError(t, damage(o.file(e.Hash)))
			got := make([]byte, len(good))
			n, err := io.ReadFull(f, got)
			require.Equal(t, good[:n], string(got[:n]), "what was read is right")
			if err != nil {
				require.ErrorIs(t, err, unix.EIO)
			}
		})
	}
}

func TestEntriesThatAreNoTree(t *testing.T) {
	file := func(path string) Entry { return Entry{Path: path, Type: unix.S_IFREG} }
	for name, entries := range map[string][]Entry{
		"no directory":            {file("d/a")},
		"a file as a directory":   {file("d"), file("d/a")},
		"absolute":                {file("/a")},
		"above":                   {file("../a")},
		"dots":                    {file(".")},
		"not clean":               {dir("d"), file("d//a")},
		"twice":                   {file("a"), file("a")},
		"a name with NUL":         {file("a\x00")},
		"a name that is too long": {file(strings.Repeat("a", nameMax+1))},
		"a device":                {{Path: "a", Type: unix.S_IFBLK}},
		"a negative size":         {{Path: "a", Type: unix.S_IFREG, Size: -1}},
		"a link that is too long": {{Path: "a", Type: unix.S_IFLNK, Size: 1 << 20}},
		"too many":                make([]Entry, MaxEntries+1),
	} {
		_, err := build(&Config{Entries: entries})
		require.ErrorIs(t, err, ErrTree, name)
	}
}

// TestPropertyEveryRangeIsThatOfTheContent for any size, offset and length.
func TestPropertyEveryRangeIsThatOfTheContent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{0, 1, 4096, chunk - 1, chunk, chunk + 1, 2*chunk + 17}).Draw(t, "size")
		content := bytes.Repeat([]byte{rapid.Byte().Draw(t, "seed"), 1, 2}, size/3+1)[:size]
		require.NoError(t, os.WriteFile(file, content, 0o600))
		f, err := os.Open(file)
		require.NoError(t, err)
		defer f.Close()
		p, err := verify(f, sha256.Sum256(content), int64(size))
		require.NoError(t, err)
		at := rapid.IntRange(0, size+10).Draw(t, "at")
		dest := make([]byte, rapid.IntRange(0, 2*chunk).Draw(t, "length"))
		n, err := p.read(f, dest, int64(at))
		require.NoError(t, err)
		from := min(at, size)
		require.True(t, bytes.Equal(content[from:min(size, from+len(dest))], dest[:n]))
	})
}

func TestTheKnownHashesAreBounded(t *testing.T) {
	k := known{of: map[Hash]*parts{}}
	for i := range 300 {
		k.put(Hash{byte(i), byte(i >> 8)}, &parts{sums: make([]Hash, 1000)})
		require.LessOrEqual(t, k.kept, maxKept)
		require.Len(t, k.order, len(k.of))
	}
	require.Nil(t, k.get(Hash{}), "the oldest went")
	require.NotNil(t, k.get(Hash{299 & 255, 1}))
}
