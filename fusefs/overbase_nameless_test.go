package fusefs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
)

// losses are how a file of the base, which nobody has changed, loses its last name.
var losses = map[string]func(dir string) error{
	"unlink": func(dir string) error { return unix.Unlink(filepath.Join(dir, "d/f")) },
	"replaced": func(dir string) error {
		return unix.Rename(filepath.Join(dir, "other"), filepath.Join(dir, "d/f"))
	},
	"with its directory": func(dir string) error { return os.RemoveAll(filepath.Join(dir, "d")) },
	"in a directory that was moved": func(dir string) error {
		if err := unix.Rename(filepath.Join(dir, "d"), filepath.Join(dir, "e")); err != nil {
			return err
		}
		return unix.Unlink(filepath.Join(dir, "e/f"))
	},
	"none: exchanged": func(dir string) error {
		return rename2(filepath.Join(dir, "other"), filepath.Join(dir, "d/f"), unix.RENAME_EXCHANGE)
	},
}

// changesByDescriptor are the changes that a program makes with a descriptor that is open for reading.
var changesByDescriptor = map[string]func(fd int, dir string) string{
	"fchmod": func(fd int, _ string) string { return errnoText(unix.Fchmod(fd, 0o4751)) },
	"fchown": func(fd int, _ string) string { return errnoText(unix.Fchown(fd, 12, 34)) },
	"futimens": func(fd int, _ string) string {
		return errnoText(unix.UtimesNanoAt(unix.AT_FDCWD, backing.ProcPath(fd), []unix.Timespec{{Sec: 5}, {Sec: 6}}, 0))
	},
	"fsetxattr": func(fd int, _ string) string {
		value := make([]byte, 9)
		err := unix.Fsetxattr(fd, "user.a", []byte("b"), 0)
		n, err2 := unix.Fgetxattr(fd, "user.a", value)
		return fmt.Sprint(errnoText(err), errnoText(err2), n, string(value))
	},
	"fremovexattr": func(fd int, _ string) string { return errnoText(unix.Fremovexattr(fd, "user.base")) },
	"truncate":     func(fd int, _ string) string { return errnoText(unix.Truncate(backing.ProcPath(fd), 4)) },
	"ftruncate":    func(fd int, _ string) string { return errnoText(unix.Ftruncate(fd, 4)) },
	"link": func(fd int, dir string) string {
		return errnoText(unix.Linkat(fd, "", unix.AT_FDCWD, filepath.Join(dir, "linked"), unix.AT_EMPTY_PATH))
	},
	"write": func(fd int, _ string) string {
		w, err := unix.Open(backing.ProcPath(fd), unix.O_RDWR, 0)
		if err != nil {
			return errnoText(err)
		}
		defer unix.Close(w)
		n, err := unix.Pwrite(w, []byte("changed"), 3)
		return fmt.Sprint(n, errnoText(err))
	},
	"truncate by open": func(fd int, _ string) string {
		w, err := unix.Open(backing.ProcPath(fd), unix.O_WRONLY|unix.O_TRUNC, 0)
		if err == nil {
			err = unix.Close(w)
		}
		return errnoText(err)
	},
}

// A program that has a file of the base open can change it by the descriptor after its last name has gone, and
// finds the changes, as in a plain directory. The kernel's overlayfs makes no copy of such a file.
func TestAFileOfTheBaseWithoutANameCanBeChanged(t *testing.T) {
	const text = "text of the base"
	fill := func(top string) {
		for loss := range losses {
			for change := range changesByDescriptor {
				dir := filepath.Join(top, loss, change)
				require.NoError(t, os.MkdirAll(filepath.Join(dir, "d"), 0o755))
				for _, name := range []string{"other", "d/f"} {
					write(t, filepath.Join(dir, name), text)
				}
				require.NoError(t, unix.Setxattr(filepath.Join(dir, "d/f"), "user.base", []byte("of the base"), 0))
			}
		}
	}
	run := func(dir, loss, change string) (log []string) {
		var fds []int
		for _, flags := range []int{unix.O_RDONLY, unix.O_RDONLY} {
			fd, err := unix.Open(filepath.Join(dir, "d/f"), flags, 0)
			require.NoError(t, err)
			defer unix.Close(fd)
			fds = append(fds, fd)
		}
		before := fstatOf(t, fds[0])
		buf := make([]byte, 3)
		_, err := unix.Pread(fds[0], buf, 0)
		require.NoError(t, err)
		require.NoError(t, losses[loss](dir))
		for range 2 { // the second time it has been copied
			log = append(log, changesByDescriptor[change](fds[0], dir))
			for _, fd := range fds {
				st := fstatOf(t, fd)
				all := make([]byte, 100)
				n, err := unix.Pread(fd, all, 0)
				log = append(log, fmt.Sprint(statText(&st), " same:", st.Ino == before.Ino, n, errnoText(err), " ", string(all)))
				if change == "futimens" {
					log = append(log, fmt.Sprint(st.Mtim.Sec))
				}
				value := make([]byte, 20)
				n, err = unix.Fgetxattr(fd, "user.base", value)
				log = append(log, fmt.Sprint(n, errnoText(err), string(value)))
			}
		}
		for name, text := range shape(t, dir) {
			log = append(log, name+withoutDirLinks(text))
		}
		return log
	}
	for name, opt := range ways {
		t.Run(name, func(t *testing.T) {
			v, lower := mountOverBase(t, fill, opt)
			needTmpfile(t, v.back)
			plain := t.TempDir()
			fill(plain)
			for loss := range losses {
				for change := range changesByDescriptor {
					dir := filepath.Join(loss, change)
					t.Run(dir, func(t *testing.T) {
						require.ElementsMatch(t, run(filepath.Join(plain, dir), loss, change), run(v.in(dir), loss, change))
						require.Equal(t, text, content(t, filepath.Join(lower, dir, "d/f")), "the base")
					})
				}
			}
		})
	}
}

// A descriptor that gives no right to read keeps such a file, too.
func TestAFileOfTheBaseThatNobodyReadsCanBeChangedWithoutAName(t *testing.T) {
	for name, opt := range ways {
		t.Run(name, func(t *testing.T) {
			v, lower := mountOverBase(t, func(lower string) { write(t, filepath.Join(lower, "f"), "text") }, opt)
			needTmpfile(t, v.back)
			fd, err := unix.Open(v.in("f"), unix.O_PATH, 0)
			require.NoError(t, err)
			defer unix.Close(fd)
			require.NoError(t, unix.Unlink(v.in("f")))
			require.NoError(t, unix.Chmod(backing.ProcPath(fd), 0o640))
			st := fstatOf(t, fd)
			require.EqualValues(t, 0o640, st.Mode&0o7777)
			require.Zero(t, st.Nlink)
			require.Equal(t, "text", content(t, backing.ProcPath(fd)))
			require.Equal(t, "text", content(t, filepath.Join(lower, "f")))
		})
	}
}
