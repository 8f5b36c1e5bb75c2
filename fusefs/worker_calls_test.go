package fusefs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
)

func (c call) p() string { return c.Root + "/" + c.P }
func (c call) q() string { return c.Root + "/" + c.Q }

// pattern is what a call writes: depends on the call, so that data in the
// wrong place shows.
func (c call) pattern() []byte {
	b := alignedBuffer(int(c.Len))
	for i := range b {
		b[i] = byte(c.Off + int64(i)*7 + c.Off2)
	}
	return b
}

// alignedBuffer is memory that O_DIRECT takes.
func alignedBuffer(n int) []byte {
	b := make([]byte, n+4096)
	skip := -int(uintptr(unsafe.Pointer(&b[0]))) & 4095
	return b[skip : skip+n : skip+n]
}

func onFD(f func(fd int, c call) string) func(*slots, call) string {
	return func(s *slots, c call) string {
		if s[c.Slot] < 0 {
			return "closed"
		}
		return f(s[c.Slot], c)
	}
}

func onPath(f func(c call) error) func(*slots, call) string {
	return func(_ *slots, c call) string { return okText(f(c)) }
}

func okText(err error) string {
	if err == nil {
		return "ok"
	}
	return errnoText(err)
}

func fdStat(fd int) (unix.Stat_t, bool) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return st, err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG
}

func direct(fd int) bool {
	fl, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	return err == nil && fl&unix.O_DIRECT != 0
}

// aligned rounds a call to what every file system takes with O_DIRECT.
func aligned(fd int, c call) call {
	if direct(fd) {
		c.Off, c.Len = c.Off&^4095, (c.Len+4095)&^4095
	}
	return c
}

// calls is everything a worker can do.
var calls = map[string]func(*slots, call) string{
	"open": func(s *slots, c call) string {
		var st unix.Stat_t
		if unix.Stat(c.p(), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO {
			c.Flags |= unix.O_NONBLOCK // nobody waits for the other end
		}
		fd, err := unix.Open(c.p(), c.Flags|unix.O_CLOEXEC, c.Mode)
		if err == nil {
			s.put(c.Slot, fd)
		}
		return okText(err)
	},
	"reopen": onFD(func(fd int, c call) string { // by way of /proc
		again, err := unix.Open(backing.ProcPath(fd), c.Flags&unix.O_ACCMODE|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == nil {
			_ = unix.Close(again)
		}
		return okText(err)
	}),
	"close": func(s *slots, c call) string { s.put(c.Slot, -1); return "ok" },
	"pwrite": onFD(func(fd int, c call) string {
		if _, regular := fdStat(fd); !regular {
			return "not a file"
		}
		c = aligned(fd, c)
		n, err := unix.Pwrite(fd, c.pattern(), c.Off)
		return fmt.Sprint(n, okText(err))
	}),
	"write": onFD(func(fd int, c call) string {
		if direct(fd) {
			return "position may not be aligned"
		}
		n, err := unix.Write(fd, c.pattern())
		return fmt.Sprint(n, okText(err))
	}),
	"pread": onFD(func(fd int, c call) string {
		c = aligned(fd, c)
		b := alignedBuffer(int(c.Len))
		n, err := unix.Pread(fd, b, c.Off)
		return fmt.Sprint(n, okText(err), sum(b[:max(n, 0)]))
	}),
	"append": func(_ *slots, c call) string {
		fd, err := unix.Open(c.p(), unix.O_WRONLY|unix.O_APPEND|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return okText(err)
		}
		defer unix.Close(fd)
		n, err := unix.Write(fd, c.pattern())
		return fmt.Sprint(n, okText(err))
	},
	"store": onFD(storeMapped),
	"load":  onFD(loadMapped),
	"seek": onFD(func(fd int, c call) string {
		st, regular := fdStat(fd)
		if !regular {
			return "the end of a directory is the file system's own business"
		}
		n, err := unix.Seek(fd, c.Off%(st.Size+3), c.Flags%5)
		return fmt.Sprint(n, okText(err))
	}),
	"fstat": onFD(func(fd int, _ call) string {
		st, _ := fdStat(fd)
		return statText(&st)
	}),
	"ftruncate": onFD(func(fd int, c call) string { return okText(unix.Ftruncate(fd, c.Off)) }),
	"fchmod":    onFD(func(fd int, c call) string { return okText(unix.Fchmod(fd, c.Mode)) }),
	"fchown":    onFD(func(fd int, c call) string { return okText(unix.Fchown(fd, int(c.Off2), int(c.Flags))) }),
	"fsync":     onFD(func(fd int, _ call) string { return okText(unix.Fsync(fd)) }),
	"fallocate": onFD(func(fd int, c call) string { return okText(unix.Fallocate(fd, c.Mode, c.Off, c.Len)) }),
	"copy": func(s *slots, c call) string {
		if s[c.Slot] < 0 || s[c.Slot2] < 0 {
			return "closed"
		}
		if direct(s[c.Slot]) || direct(s[c.Slot2]) {
			return "what O_DIRECT wants is the file system's own business"
		}
		n, err := unix.CopyFileRange(s[c.Slot], &c.Off, s[c.Slot2], &c.Off2, int(c.Len), 0)
		return fmt.Sprint(n, okText(err), c.Off, c.Off2)
	},
	"tmpfile": func(s *slots, c call) string {
		fd, err := unix.Open(c.p(), c.Flags&^unix.O_CREAT|unix.O_TMPFILE|unix.O_CLOEXEC, c.Mode)
		if err == nil {
			s.put(c.Slot, fd)
		}
		return okText(err)
	},
	"linkfd": onFD(func(fd int, c call) string {
		return okText(unix.Linkat(unix.AT_FDCWD, backing.ProcPath(fd), unix.AT_FDCWD, c.q(), unix.AT_SYMLINK_FOLLOW))
	}),
	"flock": onFD(func(fd int, c call) string {
		return okText(unix.Flock(fd, []int{unix.LOCK_SH, unix.LOCK_EX, unix.LOCK_UN}[c.Flags%3]|unix.LOCK_NB))
	}),
	"fcntl": onFD(func(fd int, c call) string {
		lk := unix.Flock_t{Type: []int16{unix.F_RDLCK, unix.F_WRLCK, unix.F_UNLCK}[c.Flags%3], Start: c.Off, Len: c.Len}
		cmd := unix.F_SETLK
		if c.Off2%2 == 1 {
			cmd = unix.F_OFD_SETLK
		}
		return okText(unix.FcntlFlock(uintptr(fd), cmd, &lk))
	}),
	"mkdir":    onPath(func(c call) error { return unix.Mkdir(c.p(), c.Mode) }),
	"mkfifo":   onPath(func(c call) error { return unix.Mkfifo(c.p(), c.Mode) }),
	"mknod":    onPath(func(c call) error { return unix.Mknod(c.p(), c.Mode|unix.S_IFREG, 0) }),
	"mksock":   onPath(func(c call) error { return unix.Mknod(c.p(), c.Mode|unix.S_IFSOCK, 0) }),
	"rmdir":    onPath(func(c call) error { return unix.Rmdir(c.p()) }),
	"unlink":   onPath(func(c call) error { return unix.Unlink(c.p()) }),
	"rename":   onPath(func(c call) error { return rename2(c.p(), c.q(), uint(c.Flags)) }),
	"link":     onPath(func(c call) error { return unix.Link(c.p(), c.q()) }),
	"symlink":  onPath(func(c call) error { return unix.Symlink(linkText(c.P), c.q()) }),
	"chmod":    onPath(func(c call) error { return unix.Chmod(c.p(), c.Mode) }),
	"chown":    onPath(func(c call) error { return unix.Lchown(c.p(), int(c.Off2), c.Flags) }),
	"truncate": onPath(func(c call) error { return unix.Truncate(c.p(), c.Off) }),
	"access":   onPath(func(c call) error { return unix.Faccessat(unix.AT_FDCWD, c.p(), c.Mode&7, unix.AT_EACCESS) }),
	"chdir":    onPath(func(c call) error { return chdir(c.p()) }),
	"utimes": onPath(func(c call) error {
		ts := []unix.Timespec{{Sec: c.Off, Nsec: c.Len}, {Sec: c.Len, Nsec: c.Off}}
		if c.Flags%3 > 0 {
			ts[c.Flags%2].Nsec = []int64{unix.UTIME_NOW, unix.UTIME_OMIT}[c.Flags/3%2]
		}
		return unix.UtimesNanoAt(unix.AT_FDCWD, c.p(), ts, unix.AT_SYMLINK_NOFOLLOW)
	}),
	"readlink": func(_ *slots, c call) string { s, err := os.Readlink(c.p()); return s + okText(err) },
	"setxattr": onPath(func(c call) error {
		return unix.Lsetxattr(c.p(), "user."+filepath.Base(c.Q), c.pattern()[:c.Len%2000], c.Flags%3)
	}),
	"getxattr": func(_ *slots, c call) string {
		b := make([]byte, c.Off%2100)
		n, err := unix.Lgetxattr(c.p(), "user."+filepath.Base(c.Q), b)
		return fmt.Sprint(n, okText(err), sum(b))
	},
	"removexattr": onPath(func(c call) error { return unix.Lremovexattr(c.p(), "user."+filepath.Base(c.Q)) }),
	"listxattr": func(_ *slots, c call) string {
		b := make([]byte, 4096)
		n, err := unix.Llistxattr(c.p(), b)
		names := strings.Split(string(b[:max(n, 0)]), "\x00")
		slices.Sort(names)
		return fmt.Sprint(okText(err), names)
	},
	"lstat": func(_ *slots, c call) string {
		var st unix.Stat_t
		err := unix.Lstat(c.p(), &st)
		return okText(err) + statText(&st)
	},
	"statx": func(_ *slots, c call) string {
		var st unix.Statx_t
		err := unix.Statx(unix.AT_FDCWD, c.p(), unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st)
		btime := st.Mask&unix.STATX_BTIME != 0 && st.Btime.Sec > 1e9
		return fmt.Sprintf("%s %o n%d %d:%d born:%v", okText(err), st.Mode, st.Nlink, st.Uid, st.Gid, btime)
	},
	"readdir": func(_ *slots, c call) string {
		es, err := os.ReadDir(c.p())
		s := okText(err)
		for _, e := range es {
			s += " " + e.Name() + e.Type().String()
		}
		return s
	},
	"sweep": sweep,
	"read": func(_ *slots, c call) string {
		fd, err := unix.Open(c.p(), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return okText(err)
		}
		defer unix.Close(fd)
		if _, regular := fdStat(fd); !regular {
			return "not a file"
		}
		b, err := os.ReadFile(backing.ProcPath(fd))
		return fmt.Sprint(len(b), okText(err), sum(b))
	},
}

// only are calls that make sense in a story, not at random.
var only = map[string]func(*slots, call) string{
	"readsome": onFD(func(fd int, c call) string {
		b := make([]byte, c.Len)
		n, err := unix.Read(fd, b)
		return fmt.Sprint(n, okText(err), sum(b[:max(n, 0)]))
	}),
	"listen": func(s *slots, c call) string {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			s.put(c.Slot, fd)
			err = unix.Bind(fd, &unix.SockaddrUnix{Name: c.p()})
		}
		if err == nil {
			err = unix.Listen(fd, 1)
		}
		return okText(err)
	},
	"dial": func(s *slots, c call) string {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			s.put(c.Slot, fd)
			err = unix.Connect(fd, &unix.SockaddrUnix{Name: c.p()})
		}
		return okText(err)
	},
	"bind": func(_ *slots, c call) string { // a mount name space of its own, where the tree is also at Root
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = unix.Mount(c.P, c.Root, "", unix.MS_BIND, "")
		}
		return okText(err)
	},
	"fcntlwait": onFD(func(fd int, c call) string {
		lk := unix.Flock_t{Type: unix.F_WRLCK, Start: c.Off, Len: c.Len}
		return okText(unix.FcntlFlock(uintptr(fd), unix.F_SETLKW, &lk))
	}),
	"map": onFD(func(fd int, _ call) string {
		st, _ := fdStat(fd)
		m, err := unix.Mmap(fd, 0, int(st.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		mapping = m
		return okText(err)
	}),
	"poke":  func(_ *slots, c call) string { mapping[c.Off] = byte(c.Len); return "ok" },
	"peek":  func(_ *slots, c call) string { return fmt.Sprint("ok", mapping[c.Off]) },
	"unmap": func(*slots, call) string { return okText(unix.Munmap(mapping)) },
	"start": func(_ *slots, c call) string { // a program out of the tree, which then sleeps
		cmd := exec.Command(c.p(), "60") //nolint:noctx // "kill" ends it
		err := cmd.Start()
		if err == nil {
			sleeping = cmd
		}
		return okText(err)
	},
	"kill": func(*slots, call) string {
		err := sleeping.Process.Kill()
		_ = sleeping.Wait() // killed
		return okText(err)
	},
}

// sleeping is the program a worker started.
var sleeping *exec.Cmd

// mapping is the one a worker keeps.
var mapping []byte

// linkText makes a link's text of a path: some point up, some nowhere.
func linkText(p string) string {
	if len(p) > 3 {
		return "../" + p
	}
	return filepath.Base(p)
}

func chdir(dir string) error {
	if err := unix.Chdir(dir); err != nil {
		return err
	}
	return unix.Chdir("/")
}

// storeMapped changes a byte of the file through a shared mapping.
func storeMapped(fd int, c call) string {
	st, regular := fdStat(fd)
	if !regular || st.Size == 0 {
		return "nothing to map"
	}
	m, err := unix.Mmap(fd, 0, int(st.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return okText(err)
	}
	m[c.Off%st.Size] ^= byte(c.Len) | 1
	err = unix.Msync(m, unix.MS_SYNC)
	if e := unix.Munmap(m); err == nil {
		err = e
	}
	return okText(err)
}

func loadMapped(fd int, c call) string {
	st, regular := fdStat(fd)
	if !regular || st.Size == 0 {
		return "nothing to map"
	}
	how := []int{unix.MAP_SHARED, unix.MAP_PRIVATE}[c.Flags%2]
	m, err := unix.Mmap(fd, 0, int(st.Size), unix.PROT_READ, how)
	if err != nil {
		return okText(err)
	}
	h := sum(m)
	return fmt.Sprint(okText(unix.Munmap(m)), h)
}

// sweep removes the entries of a directory while it reads it, a few at a time.
func sweep(_ *slots, c call) string {
	fd, err := unix.Open(c.p(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return okText(err)
	}
	defer unix.Close(fd)
	var seen []string
	buf := make([]byte, max(600, c.Len%9000))
	for {
		n, err := unix.Getdents(fd, buf)
		if err != nil {
			return okText(err)
		}
		if n == 0 {
			break
		}
		_, _, names := unix.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			err := unix.Unlinkat(fd, name, 0)
			seen = append(seen, name+" "+okText(err))
		}
	}
	slices.Sort(seen)
	return fmt.Sprint("ok", seen)
}
