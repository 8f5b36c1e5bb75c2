package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const (
	// stranger is a user of the machine without any group of the project's or of polis.
	stranger = 64130
	// colleague is another user whose only group is the one of the project.
	colleague = 64131
)

// asUser runs f on a thread that belongs to another user, which has one group. The thread ends with f.
func asUser(t *testing.T, uid, gid int, f func()) {
	t.Helper()
	done := make(chan error, 1)
	var run func()
	run = func() {
		runtime.LockOSThread() // and never unlocked
		if unix.Gettid() == unix.Getpid() {
			// The first thread outlives its goroutine. It waits while another one does it.
			again := make(chan struct{})
			go func() { defer close(again); run() }()
			<-again
			runtime.UnlockOSThread()
			return
		}
		// The raw calls change this thread alone.
		for _, call := range [][4]uintptr{{unix.SYS_SETGROUPS, 0, 0, 0}, {unix.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid)}, {unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)}} {
			if _, _, e := unix.RawSyscall(call[0], call[1], call[2], call[3]); e != 0 {
				done <- e
				return
			}
		}
		f()
		done <- nil
	}
	go run()
	require.NoError(t, <-done)
}

// made lists what is at or below the paths, as root sees it.
func made(t *testing.T, tops ...string) (paths []string) {
	t.Helper()
	for _, top := range tops {
		require.NoError(t, filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESTALE) {
				return nil // a temporary file, or the server's side of a view below an overlay
			}
			paths = append(paths, path)
			return err
		}))
	}
	return paths
}

// opened reports what the calling thread can do with a path: nothing, if the text is empty.
func opened(path string) string {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	if errors.Is(err, unix.ENOENT) {
		return "" // a temporary file
	}
	if err != nil {
		return unexpected("find", err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return "read the link"
	case unix.S_IFSOCK:
		return attempt("connect", func() error {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.Connect(fd, &unix.SockaddrUnix{Name: path})
		})
	case unix.S_IFDIR:
		return attempt("list", func() error { return openAndClose(path, unix.O_RDONLY|unix.O_DIRECTORY) }) +
			attempt("create in", func() error { return unix.Mkdir(filepath.Join(path, "stranger"), 0o777) })
	}
	return attempt("read", func() error { return openAndClose(path, unix.O_RDONLY) }) +
		attempt("write", func() error { return openAndClose(path, unix.O_WRONLY) })
}

func openAndClose(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Close(fd)
	}
	return err
}

func attempt(what string, f func() error) string {
	if err := f(); err != nil {
		return unexpected(what, err)
	}
	return what + "; "
}

func unexpected(what string, err error) string {
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOENT) {
		return ""
	}
	return fmt.Sprintf("%s: %v; ", what, err)
}

// madeDirs are the directories with what polis makes in these tests.
func (d *daemon) madeDirs() []string {
	dirs := []string{d.path("ws"), d.path("ws2"), d.path("state"), d.path("run")}
	if len(glob(d.path("at", "*"))) > 0 { // a snapshot is mounted there
		dirs = append(dirs, d.path("at"))
	}
	return dirs
}

// requirePrivate requires that a user gets EACCES for everything that polis has made, but what allowed lists.
func (d *daemon) requirePrivate(t *testing.T, uid, gid int, allowed map[string]string) {
	t.Helper()
	paths := made(t, d.madeDirs()...)
	require.Greater(t, len(paths), 200)
	var seen []string
	used := map[string]bool{}
	asUser(t, uid, gid, func() {
		for _, path := range paths {
			got := opened(path)
			rel := strings.TrimPrefix(path, d.dir+"/")
			if got != "" && allowed[rel] == got {
				used[rel] = true
			} else if got != "" {
				seen = append(seen, rel+": "+got)
			}
		}
	})
	require.Empty(t, seen[:min(len(seen), 60)], "uid %d, gid %d can, of %d paths, reach %d", uid, gid, len(paths), len(seen))
	require.Len(t, used, len(allowed), "what is permitted, and not used: shorten the list")
}

// requirePrivateProcesses requires that a user sees no file, directory and variable of shims and agents by /proc.
func (d *daemon) requirePrivateProcesses(t *testing.T, uid, gid int) {
	t.Helper()
	pids := shimPIDs(d)
	require.NotEmpty(t, pids)
	for _, f := range glob("/proc/[0-9]*/status") {
		var pid, parent int
		for _, line := range strings.Split(readFile(f), "\n") {
			fmt.Sscanf(line, "Pid: %d", &pid)
			fmt.Sscanf(line, "PPid: %d", &parent)
		}
		if slices.Contains(pids, parent) && !slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
	}
	var seen []string
	asUser(t, uid, gid, func() {
		for _, pid := range append(pids, d.cmd.Process.Pid) {
			for _, name := range []string{"environ", "maps", "mem", "fd", "root/", "cwd/"} {
				path := fmt.Sprintf("/proc/%d/%s", pid, name)
				if fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil {
					var b [1]byte
					if n, _ := unix.Read(fd, b[:]); n > 0 || strings.HasSuffix(name, "/") || name == "fd" {
						seen = append(seen, path)
					}
					_ = unix.Close(fd)
				}
			}
		}
	})
	require.Empty(t, seen)
}

// readAs reads a file as another user.
func readAs(t *testing.T, uid, gid int, path string) (text string, err error) {
	t.Helper()
	asUser(t, uid, gid, func() {
		var b []byte
		b, err = os.ReadFile(path)
		text = string(b)
	})
	return text, err
}
