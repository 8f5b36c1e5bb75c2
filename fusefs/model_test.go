package fusefs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"polis/fusefs/backing"
)

// A view behaves like the directory behind it: random sequences of calls give
// the same results and errnos on a view and on a plain directory, and leave the
// same tree.
func TestAViewBehavesLikeAPlainDirectory(t *testing.T) {
	for name, opt := range map[string]func(*Config){
		"hybrid": func(*Config) {},
		"server only, nothing cached, one dir fd": func(c *Config) { c.NoPassthrough, c.NoRing, c.Timeout, c.DirDescriptors = true, true, -1, 1 },
	} {
		t.Run(name, func(t *testing.T) { behavesLikeAPlainDirectory(t, mountView(t, opt)) })
	}
}

func behavesLikeAPlainDirectory(t *testing.T, v *view) {
	plain := t.TempDir()
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		a, b := newWorld(filepath.Join(plain, fmt.Sprint(run))), newWorld(v.in(fmt.Sprint(run)))
		require.NoError(rt, os.Mkdir(a.root, 0o755))
		require.NoError(rt, os.Mkdir(b.root, 0o755))
		defer a.close()
		defer b.close()
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			name, step := drawStep(rt)
			ra, rb := step(a), step(b)
			require.Equal(rt, ra, rb, name)
		}
		want := shape(rt, a.root)
		require.Equal(rt, want, shape(rt, b.root), "through the view")
		require.Equal(rt, want, shape(rt, v.raw(fmt.Sprint(run))), "on the disk")
		require.Equal(rt, objects(rt, v.back), v.g.objects.Load(), "what the guard counted")
	})
}

// world is one directory with a few open files.
type world struct {
	root string
	open [3]*os.File
}

func newWorld(root string) *world { return &world{root: root} }

func (w *world) close() {
	for _, f := range w.open {
		if f != nil {
			f.Close()
		}
	}
}

func (w *world) at(p string) string { return filepath.Join(w.root, p) }

// errnoText makes results comparable.
func errnoText(err error) string {
	var e syscall.Errno
	if errors.As(err, &e) {
		return unix.ErrnoName(e)
	}
	return fmt.Sprint(err)
}

func drawStep(rt *rapid.T) (string, func(*world) string) {
	path := rapid.SampledFrom([]string{"a", "b", "c", "d", "d/a", "d/b", "d/d", "d/d/a", "e", "e/a", "l"})
	p, q := path.Draw(rt, "p"), path.Draw(rt, "q")
	i := rapid.IntRange(0, 2).Draw(rt, "fd")
	off := int64(rapid.IntRange(0, 9000).Draw(rt, "off"))
	size := int64(rapid.IntRange(0, 9000).Draw(rt, "size"))
	flags := rapid.SampledFrom([]int{
		os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_CREATE, os.O_WRONLY | os.O_CREATE | os.O_EXCL,
		os.O_RDWR | os.O_TRUNC, os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_CREATE | os.O_APPEND, unix.O_NOFOLLOW, unix.O_DIRECTORY,
	}).Draw(rt, "flags")
	mode := rapid.Uint32Range(0, 0o7777).Draw(rt, "mode")
	rflags := rapid.SampledFrom([]uint{0, 0, unix.RENAME_NOREPLACE, unix.RENAME_EXCHANGE}).Draw(rt, "rflags")
	withFile := func(f func(*os.File) string) func(*world) string {
		return func(w *world) string {
			if w.open[i] == nil {
				return "closed"
			}
			return f(w.open[i])
		}
	}
	steps := map[string]func(*world) string{
		"open": func(w *world) string {
			f, err := os.OpenFile(w.at(p), flags, os.FileMode(mode&0o777))
			if err != nil {
				return errnoText(err)
			}
			if w.open[i] != nil {
				w.open[i].Close()
			}
			w.open[i] = f
			return "ok"
		},
		"close": func(w *world) string {
			if w.open[i] == nil {
				return "closed"
			}
			err := w.open[i].Close()
			w.open[i] = nil
			return errnoText(err)
		},
		"pwrite": withFile(func(f *os.File) string {
			data := make([]byte, size)
			for j := range data {
				data[j] = byte(off + int64(j))
			}
			n, err := unix.Pwrite(int(f.Fd()), data, off)
			return fmt.Sprint(n, errnoText(err))
		}),
		"pread": withFile(func(f *os.File) string {
			data := make([]byte, size)
			n, err := unix.Pread(int(f.Fd()), data, off)
			return fmt.Sprint(n, errnoText(err), sum(data[:max(n, 0)]))
		}),
		"read": withFile(func(f *os.File) string {
			b := make([]byte, size)
			n, err := unix.Read(int(f.Fd()), b)
			return fmt.Sprint(n, errnoText(err), sum(b[:max(n, 0)]))
		}),
		"fstat": withFile(func(f *os.File) string {
			var st unix.Stat_t
			err := unix.Fstat(int(f.Fd()), &st)
			return errnoText(err) + statText(&st)
		}),
		"ftruncate": withFile(func(f *os.File) string { return errnoText(f.Truncate(size)) }),
		"fchmod":    withFile(func(f *os.File) string { return errnoText(unix.Fchmod(int(f.Fd()), mode)) }),
		"fchown":    withFile(func(f *os.File) string { return errnoText(unix.Fchown(int(f.Fd()), int(mode), int(size))) }),
		"futimens": withFile(func(f *os.File) string {
			ts := []unix.Timespec{{Sec: off, Nsec: size}, {Sec: size, Nsec: off}}
			return errnoText(unix.UtimesNanoAt(unix.AT_FDCWD, backing.ProcPath(int(f.Fd())), ts, 0))
		}),
		"fsetxattr": withFile(func(f *os.File) string {
			return errnoText(unix.Fsetxattr(int(f.Fd()), "user."+filepath.Base(q), []byte(q), int(rflags&3)))
		}),
		"reopen": withFile(func(f *os.File) string {
			again, err := os.OpenFile(backing.ProcPath(int(f.Fd())), flags&^(unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW), 0)
			if err != nil {
				return errnoText(err)
			}
			*f, *again = *again, *f
			return errnoText(again.Close())
		}),
		"fallocate": withFile(func(f *os.File) string { return errnoText(unix.Fallocate(int(f.Fd()), 0, off, size)) }),
		"punch": withFile(func(f *os.File) string {
			return errnoText(unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, size))
		}),
		"seek end": withFile(func(f *os.File) string {
			if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
				return "the end of a directory is the file system's own business"
			}
			n, err := f.Seek(0, io.SeekEnd)
			return fmt.Sprint(n, errnoText(err))
		}),
		"mkdir":    func(w *world) string { return errnoText(unix.Mkdir(w.at(p), mode)) },
		"rmdir":    func(w *world) string { return errnoText(unix.Rmdir(w.at(p))) },
		"unlink":   func(w *world) string { return errnoText(unix.Unlink(w.at(p))) },
		"rename":   func(w *world) string { return errnoText(rename2(w.at(p), w.at(q), rflags)) },
		"link":     func(w *world) string { return errnoText(unix.Link(w.at(p), w.at(q))) },
		"symlink":  func(w *world) string { return errnoText(unix.Symlink(filepath.Base(p), w.at(q))) },
		"readlink": func(w *world) string { s, err := os.Readlink(w.at(p)); return s + errnoText(err) },
		"chmod":    func(w *world) string { return errnoText(unix.Chmod(w.at(p), mode)) },
		"lchown":   func(w *world) string { return errnoText(unix.Lchown(w.at(p), int(mode), int(size))) },
		"truncate": func(w *world) string { return errnoText(unix.Truncate(w.at(p), size)) },
		"utimes": func(w *world) string {
			ts := []unix.Timespec{{Sec: off, Nsec: size}, {Sec: size, Nsec: off}}
			return errnoText(unix.UtimesNanoAt(unix.AT_FDCWD, w.at(p), ts, unix.AT_SYMLINK_NOFOLLOW))
		},
		"mkfifo": func(w *world) string { return errnoText(unix.Mkfifo(w.at(p), mode)) },
		"setxattr": func(w *world) string {
			return errnoText(unix.Lsetxattr(w.at(p), "user."+filepath.Base(q), []byte(q), int(rflags&3)))
		},
		"getxattr": func(w *world) string {
			b := make([]byte, 20)
			n, err := unix.Lgetxattr(w.at(p), "user."+filepath.Base(q), b)
			return fmt.Sprint(n, errnoText(err), string(b))
		},
		"removexattr": func(w *world) string { return errnoText(unix.Lremovexattr(w.at(p), "user."+filepath.Base(q))) },
		"lstat": func(w *world) string {
			var st unix.Stat_t
			err := unix.Lstat(w.at(p), &st)
			return errnoText(err) + statText(&st)
		},
		"access": func(w *world) string { return errnoText(unix.Access(w.at(p), mode&7)) },
		"readdir": func(w *world) string {
			es, err := os.ReadDir(w.at(p))
			s := errnoText(err)
			for _, e := range es {
				s += " " + e.Name() + e.Type().String()
			}
			return s
		},
	}
	names := make([]string, 0, len(steps))
	for n := range steps {
		names = append(names, n)
	}
	slices.Sort(names)
	name := rapid.SampledFrom(append(names, "open", "open", "open", "mkdir", "rename", "rename")).Draw(rt, "op")
	step := steps[name]
	return fmt.Sprintf("%s p=%s q=%s fd=%d off=%d size=%d flags=%#x mode=%o rflags=%d", name, p, q, i, off, size, flags, mode, rflags),
		func(w *world) string { return guardFIFO(w, name, p, flags, step) }
}

// guardFIFO keeps opens of FIFOs from waiting for the other end.
func guardFIFO(w *world, name, p string, flags int, step func(*world) string) string {
	if name == "open" {
		if fi, err := os.Stat(w.at(p)); err == nil && fi.Mode()&os.ModeNamedPipe != 0 {
			return "fifo"
		}
	}
	return step(w)
}

func sum(b []byte) uint32 {
	h := uint32(2166136261)
	for _, c := range b {
		h = (h ^ uint32(c)) * 16777619
	}
	return h
}

// statText is what must agree; a directory's size and blocks depend on history.
func statText(st *unix.Stat_t) string {
	size := st.Size
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		size = 0
	}
	return fmt.Sprintf(" %o n%d %d:%d s%d", st.Mode, st.Nlink, st.Uid, st.Gid, size)
}

func shape(t require.TestingT, root string) map[string]string {
	out := map[string]string{}
	err := filepath.WalkDir(root, func(p string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		out[rel] = statText(&st)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			out[rel] += fmt.Sprint(" ", sum(b))
			x := make([]byte, 4096)
			n, err := unix.Listxattr(p, x)
			if err != nil {
				return err
			}
			// In which order is the file system's matter: ext4 lists those in the inode first.
			names := strings.Split(string(x[:n]), "\x00")
			slices.Sort(names)
			out[rel] += strings.Join(names, " ")
		case unix.S_IFLNK:
			s, err := os.Readlink(p)
			if err != nil {
				return err
			}
			out[rel] += " -> " + s
		}
		return nil
	})
	require.NoError(t, err)
	return out
}
