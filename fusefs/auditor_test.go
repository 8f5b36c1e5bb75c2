package fusefs

import (
	"context"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// testAuditor keeps what it gets, and refuses when it is full.
type testAuditor struct {
	mu       sync.Mutex
	full     bool
	reserved int
	records  []string
	pids     []uint32
}

func (a *testAuditor) Reserve() syscall.Errno {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.full {
		return syscall.ENOSPC
	}
	a.reserved++
	return 0
}

func (a *testAuditor) Release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reserved--
}

func (a *testAuditor) Record(c Caller, op Op, write bool, targets ...Target) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reserved--
	kind := "r"
	if write {
		kind = "w"
	}
	var paths []string
	for _, t := range targets {
		path := t.Path
		if t.Dir {
			path += "/"
		}
		if t.Tree {
			path += "**"
		}
		paths = append(paths, path)
	}
	a.records = append(a.records, string(op)+" "+kind+" "+strings.Join(paths, ">"))
	a.pids = append(a.pids, c.Pid)
}

func (a *testAuditor) take() (records []string, pids []uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	records, pids = a.records, a.pids
	a.records, a.pids = nil, nil
	return records, pids
}

func (a *testAuditor) setFull(full bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.full = full
}

// TestEveryOpenAndChangeIsRecordedOnce, with its caller, also the second open of a file, which needs
// no descriptor; and what did not happen is not recorded.
func TestEveryOpenAndChangeIsRecordedOnce(t *testing.T) {
	audit := &testAuditor{}
	v := mountView(t, func(c *Config) { c.Auditor = audit })
	write(t, v.raw("old"), "text")
	runtime.LockOSThread() // the thread of a goroutine may change, and end
	defer runtime.UnlockOSThread()
	caller := uint32(unix.Gettid())
	steps := []struct {
		name string
		do   func() error
		want []string
	}{
		{"read", func() error { _, err := os.ReadFile(v.in("old")); return err }, []string{"open r old"}},
		{"read again", func() error { _, err := os.ReadFile(v.in("old")); return err }, []string{"open r old"}},
		{"write", func() error { return openClose(v.in("old"), unix.O_WRONLY, 0) }, []string{"open-write w old"}},
		{"both", func() error { return openClose(v.in("old"), unix.O_RDWR, 0) }, []string{"open-write w old"}},
		{"create", func() error { return openClose(v.in("new"), unix.O_CREAT|unix.O_WRONLY, 0o644) }, []string{"create w new"}},
		{"mkdir", func() error { return os.Mkdir(v.in("dir"), 0o755) }, []string{"mkdir w dir/"}},
		{"rename", func() error { return os.Rename(v.in("new"), v.in("dir/moved")) }, []string{"rename w new>dir/moved"}},
		{"move a directory", func() error { return os.Rename(v.in("dir"), v.in("to")) }, []string{"rename w dir/**>to/**"}},
		{"move it back", func() error { return os.Rename(v.in("to"), v.in("dir")) }, []string{"rename w to/**>dir/**"}},
		{"chmod", func() error { return os.Chmod(v.in("dir/moved"), 0o600) }, []string{"setattr w dir/moved"}},
		{"set an attribute", func() error { return unix.Setxattr(v.in("dir/moved"), "user.a", []byte("x"), 0) }, []string{"setxattr w dir/moved"}},
		{"read an attribute", func() error { _, err := unix.Getxattr(v.in("dir/moved"), "user.a", nil); return err }, nil},
		{"list the attributes", func() error { _, err := unix.Listxattr(v.in("dir/moved"), nil); return err }, nil},
		{"remove an attribute", func() error { return unix.Removexattr(v.in("dir/moved"), "user.a") }, []string{"removexattr w dir/moved"}},
		{"make a link", func() error { return os.Symlink("old", v.in("link")) }, []string{"symlink w link"}},
		{"read a link", func() error { _, err := os.Readlink(v.in("link")); return err }, []string{"readlink r link"}},
		{"truncate", func() error { return os.Truncate(v.in("dir/moved"), 0) }, []string{"setattr w dir/moved"}},
		{"set an attribute", func() error { return unix.Setxattr(v.in("dir/moved"), "user.x", []byte("1"), 0) }, []string{"setxattr w dir/moved"}},
		{"remove an attribute", func() error { return unix.Removexattr(v.in("dir/moved"), "user.x") }, []string{"removexattr w dir/moved"}},
		{"unlink", func() error { return os.Remove(v.in("dir/moved")) }, []string{"unlink w dir/moved"}},
		{"missing", func() error { _, err := os.ReadFile(v.in("missing")); _ = err; return nil }, nil},
	}
	for _, s := range steps {
		require.NoError(t, s.do(), s.name)
		got, pids := audit.take()
		if len(got) > 1 && s.name == "create" { // the kernel may set the size as well
			got = slices.DeleteFunc(got, func(r string) bool { return strings.HasPrefix(r, "setattr") })
		}
		require.Equal(t, s.want, got, s.name)
		for _, p := range pids {
			require.Equal(t, caller, p, "%s: the kernel reports the thread of the caller", s.name)
		}
	}
	v.g.set(func() {
		v.g.read = func(context.Context, Op, string) syscall.Errno { return syscall.EACCES }
	})
	_, err := os.ReadFile(v.in("old"))
	require.Error(t, err)
	got, _ := audit.take()
	require.Empty(t, got, "a refused open is a denial, not an open")
	require.Zero(t, audit.reserved, "every room is filled or given back")
}

// TestAnAuditorWithoutRoomRefusesBeforeAnythingIsDone: no open, no new name, no change.
func TestAnAuditorWithoutRoomRefusesBeforeAnythingIsDone(t *testing.T) {
	audit := &testAuditor{}
	v := mountView(t, func(c *Config) { c.Auditor = audit })
	write(t, v.in("old"), "text")
	audit.setFull(true)
	require.ErrorIs(t, openClose(v.in("old"), unix.O_RDONLY, 0), syscall.ENOSPC)
	require.ErrorIs(t, openClose(v.in("old"), unix.O_WRONLY|unix.O_TRUNC, 0), syscall.ENOSPC)
	require.ErrorIs(t, openClose(v.in("new"), unix.O_CREAT|unix.O_WRONLY, 0o644), syscall.ENOSPC)
	require.ErrorIs(t, os.Rename(v.in("old"), v.in("new")), syscall.ENOSPC)
	require.ErrorIs(t, unix.Unlink(v.in("old")), syscall.ENOSPC)
	audit.setFull(false)
	require.Equal(t, "text", content(t, v.in("old")))
	require.NoFileExists(t, v.in("new"))
	require.Zero(t, audit.reserved)
}
