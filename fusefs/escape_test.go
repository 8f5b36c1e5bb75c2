package fusefs

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
)

// classed is a guard with two classes of names: what lies below "deny" may
// neither be written nor read, and a hard link must not come out of it.
func classed(v *view) {
	denied := func(p string) bool { return p == "deny" || strings.HasPrefix(p, "deny/") }
	v.g.set(func() {
		v.g.read = func(_ ctxT, op Op, p string) syscall.Errno {
			if denied(p) && op != OpReaddir {
				return syscall.EACCES
			}
			return 0
		}
		v.g.write = func(_ ctxT, _ Caller, _ Op, ts []Target) syscall.Errno {
			for _, t := range ts {
				if denied(t.Path) || t.Tree && t.Path == "" {
					return syscall.EACCES
				}
			}
			return 0
		}
	})
}

func classedView(t *testing.T) *view {
	v := mountView(t)
	for _, d := range []string{"deny", "allow"} {
		require.NoError(t, os.Mkdir(v.raw(d), 0o777))
		write(t, v.raw(d, "f"), d)
	}
	require.NoError(t, os.Mkdir(v.raw("deny/d"), 0o777))
	classed(v)
	return v
}

func TestNoWayBetweenClasses(t *testing.T) {
	v := classedView(t)
	before := snapshotTree(t, v.raw("deny"))
	for name, try := range map[string]func() error{
		"hard link out":        func() error { return unix.Link(v.in("deny/f"), v.in("allow/l")) },
		"hard link in":         func() error { return unix.Link(v.in("allow/f"), v.in("deny/l")) },
		"rename out":           func() error { return unix.Rename(v.in("deny/f"), v.in("allow/l")) },
		"rename in":            func() error { return unix.Rename(v.in("allow/f"), v.in("deny/l")) },
		"rename over":          func() error { return unix.Rename(v.in("allow/f"), v.in("deny/f")) },
		"rename the directory": func() error { return unix.Rename(v.in("deny"), v.in("other")) },
		"exchange files":       func() error { return rename2(v.in("allow/f"), v.in("deny/f"), unix.RENAME_EXCHANGE) },
		"exchange directories": func() error { return rename2(v.in("allow"), v.in("deny"), unix.RENAME_EXCHANGE) },
		"dot dot":              func() error { return openClose(v.in("allow")+"/../deny/f", unix.O_RDWR, 0) },
		"tmpfile there":        func() error { return openClose(v.in("deny"), unix.O_TMPFILE|unix.O_RDWR, 0o600) },
		"tmpfile, then link": func() error {
			fd, err := unix.Open(v.in("allow"), unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
			require.NoError(t, err)
			defer unix.Close(fd)
			return linkFD(fd, v.in("deny/l"))
		},
		"link through /proc": func() error {
			fd, err := unix.Open(v.in("allow/f"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
			require.NoError(t, err)
			defer unix.Close(fd)
			return unix.Linkat(unix.AT_FDCWD, backing.ProcPath(fd), unix.AT_FDCWD, v.in("deny/l"), unix.AT_SYMLINK_FOLLOW)
		},
		"O_PATH, then reopen": func() error {
			fd, err := unix.Open(v.in("deny/f"), unix.O_PATH|unix.O_CLOEXEC, 0)
			require.NoError(t, err)
			defer unix.Close(fd)
			return openClose(backing.ProcPath(fd), unix.O_RDONLY, 0)
		},
	} {
		require.ErrorIs(t, try(), syscall.EACCES, name)
		require.Equal(t, before, snapshotTree(t, v.raw("deny")), name)
	}
	require.NoFileExists(t, v.raw("allow/l"))
}

func TestAFileWithNamesInBothClassesIsNotWritten(t *testing.T) {
	v := classedView(t)
	require.NoError(t, os.Link(v.raw("deny/f"), v.raw("allow/both")))
	_, err := os.Lstat(v.in("deny/f")) // the kernel knows both names
	require.NoError(t, err)
	require.ErrorIs(t, os.WriteFile(v.in("allow/both"), []byte("x"), 0), syscall.EACCES)
	require.Equal(t, "deny", content(t, v.raw("deny/f")))
}

// Links are text for the caller's kernel: the server never follows one.
func TestSymbolicLinksAreFollowedWhereTheCallerLives(t *testing.T) {
	v := mountView(t)
	outside := filepath.Join(t.TempDir(), "outside")
	write(t, outside, "outside")
	for i, target := range []string{outside, "/proc/self/root" + outside, "../../../../../../../.." + outside} {
		link := v.in(fmt.Sprint("l", i))
		require.NoError(t, os.Symlink(target, link))
		got, err := os.Readlink(link)
		require.NoError(t, err)
		require.Equal(t, target, got)
		// O_NOFOLLOW callers and the guard only ever see the link itself.
		require.ErrorIs(t, openClose(link, unix.O_RDONLY|unix.O_NOFOLLOW, 0), syscall.ELOOP)
	}
	v.g.set(func() {
		for _, w := range append(v.g.writes, v.g.reads...) {
			for _, t2 := range w.targets {
				require.NotContains(t, t2.Path, "outside")
			}
		}
	})
}

// A directory or file replaced by a link behind the kernel's back must never
// lead the server out of the backing directory.
func TestLinksSwappedInDuringACallLeadNowhere(t *testing.T) {
	v := mountView(t, func(c *Config) { c.Timeout = -1; c.DirDescriptors = 1 })
	outside := t.TempDir()
	write(t, filepath.Join(outside, "f"), "outside")
	require.NoError(t, os.Mkdir(v.raw("d"), 0o755))
	write(t, v.raw("d/f"), "inside")
	require.NoError(t, os.Symlink(outside, v.raw("swap")))
	write(t, v.raw("g"), "inside")
	require.NoError(t, os.Symlink(filepath.Join(outside, "f"), v.raw("swapf")))

	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = rename2(v.raw("d"), v.raw("swap"), unix.RENAME_EXCHANGE)
			_ = rename2(v.raw("g"), v.raw("swapf"), unix.RENAME_EXCHANGE)
		}
	})
	var viewDev unix.Stat_t
	require.NoError(t, unix.Stat(v.mnt, &viewDev))
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		for _, p := range []string{"d/f", "g"} {
			fd, err := unix.Open(v.in(p), unix.O_RDWR|unix.O_CLOEXEC, 0)
			if err != nil {
				continue
			}
			var st unix.Stat_t
			require.NoError(t, unix.Fstat(fd, &st))
			if st.Dev == viewDev.Dev { // else our own kernel followed the link, as it should
				b := make([]byte, 16)
				n, err := unix.Read(fd, b)
				require.NoError(t, err)
				require.Equal(t, "inside", string(b[:n]))
			}
			unix.Close(fd)
		}
	}
	close(stop)
	wg.Wait()
	require.Equal(t, "outside", content(t, filepath.Join(outside, "f")))
}

func TestFileHandlesDoNotBypassTheGate(t *testing.T) {
	v := classedView(t)
	h, mid, err := unix.NameToHandleAt(unix.AT_FDCWD, v.in("deny/f"), 0)
	if err != nil {
		require.ErrorIs(t, err, syscall.EOPNOTSUPP)
		return
	}
	_ = mid
	dir, err := unix.Open(v.mnt, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(dir)
	for _, flags := range []int{unix.O_RDONLY, unix.O_RDWR} {
		fd, err := unix.OpenByHandleAt(dir, h, flags)
		if err == nil {
			unix.Close(fd)
		}
		require.Error(t, err)
	}
}

// The guard decides about names; if they move while it decides, it is called again with the new
// ones.
func TestARenameDuringTheDecisionIsDecidedAgain(t *testing.T) {
	v := mountView(t)
	require.NoError(t, os.MkdirAll(v.raw("a/sub"), 0o777))
	write(t, v.raw("a/sub/f"), "")
	_, err := os.Lstat(v.in("a/sub/f"))
	require.NoError(t, err)
	var once sync.Once
	moved := make(chan struct{})
	v.g.set(func() {
		v.g.write = func(_ ctxT, _ Caller, op Op, ts []Target) syscall.Errno {
			if op == OpSetattr {
				once.Do(func() {
					go func() { defer close(moved); _ = os.Rename(v.in("a"), v.in("b")) }()
					<-moved
				})
				if strings.HasPrefix(ts[0].Path, "b/") {
					return syscall.EACCES
				}
			}
			return 0
		}
	})
	require.ErrorIs(t, os.Chmod(v.in("a/sub/f"), 0o600), syscall.EACCES)
	require.NotEqual(t, os.FileMode(0o600), modeOf(t, v.raw("b/sub/f")))
}

func TestPublishIsShownTheContentAndCanRefuse(t *testing.T) {
	v := mountView(t)
	write(t, v.in("tmp"), "good")
	var mu sync.Mutex
	var seen []string
	v.g.set(func() {
		v.g.publish = func(from, to string, fd int) syscall.Errno {
			b := make([]byte, 64)
			n, err := unix.Pread(fd, b, 0)
			if err != nil {
				return syscall.EIO
			}
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, from+">"+to+":"+string(b[:n]))
			if string(b[:n]) != "good" {
				return syscall.EPERM
			}
			if _, err := unix.Write(fd, []byte("x")); err == nil {
				return syscall.EIO // it must be read-only
			}
			return 0
		}
	})
	require.NoError(t, os.Link(v.in("tmp"), v.in("obj")))
	require.NoError(t, os.Rename(v.in("tmp"), v.in("obj2")))
	write(t, v.in("bad"), "evil")
	require.ErrorIs(t, os.Link(v.in("bad"), v.in("obj3")), syscall.EPERM)
	require.ErrorIs(t, os.Rename(v.in("bad"), v.in("obj")), syscall.EPERM)
	mu.Lock()
	require.Equal(t, []string{"tmp>obj:good", "tmp>obj2:good", "bad>obj3:evil", "bad>obj:evil"}, seen)
	mu.Unlock()
	require.Equal(t, "good", content(t, v.raw("obj")))

	fd, err := unix.Open(v.mnt, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	require.NoError(t, err)
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte("evil"))
	require.NoError(t, err)
	require.ErrorIs(t, linkFD(fd, v.in("obj4")), syscall.EPERM)
	require.NoError(t, unix.Ftruncate(fd, 0))
	_, err = unix.Pwrite(fd, []byte("good"), 0)
	require.NoError(t, err)
	require.NoError(t, linkFD(fd, v.in("obj4")))
	require.Equal(t, "good", content(t, v.raw("obj4")))
}

func TestAGuardThatWaitsBlocksNobodyElseAndIsInterrupted(t *testing.T) {
	v := mountView(t)
	write(t, v.raw("parked"), "")
	write(t, v.raw("free"), "free")
	entered, ended := make(chan struct{}, 1), make(chan error, 1)
	v.g.set(func() {
		v.g.write = func(ctx ctxT, _ Caller, _ Op, ts []Target) syscall.Errno {
			if ts[0].Path != "parked" {
				return 0
			}
			entered <- struct{}{}
			select {
			case <-ctx.Done():
				ended <- context.Cause(ctx)
				return syscall.EINTR
			case <-time.After(20 * time.Second):
				ended <- nil
				return syscall.EBUSY
			}
		}
	})
	c := helper(t, "append", v.in("parked"))
	require.NoError(t, c.Start())
	<-entered
	// Reads, creations, renames in the same directory, and invalidation continue.
	require.Equal(t, "free", content(t, v.in("free")))
	write(t, v.in("new"), "")
	require.NoError(t, os.Rename(v.in("new"), v.in("newer")))
	start := time.Now()
	v.fs.InvalidateAll()
	require.Less(t, time.Since(start), 10*time.Second)
	require.NoError(t, c.Process.Kill())
	require.Error(t, c.Wait())
	require.Error(t, <-ended)
	require.Eventually(t, func() bool { return v.g.tickets() == 0 }, 30*time.Second, 5*time.Millisecond)
}

// On a disk no open fails because a signal came that does not end the caller.
func TestOnlySignalsThatEndTheCallerEndHisWait(t *testing.T) {
	for name, tc := range map[string]struct {
		harmless, last syscall.Signal
	}{
		"urgent, then terminate":       {syscall.SIGURG, syscall.SIGTERM},
		"window change, then kill":     {syscall.SIGWINCH, syscall.SIGKILL},
		"child ended, then interrupt":  {syscall.SIGCHLD, syscall.SIGINT},
		"user signal, then hanging up": {syscall.SIGUSR1, syscall.SIGHUP},
	} {
		t.Run(name, func(t *testing.T) {
			if signal.Ignored(tc.last) { // by nohup(1)
				tc.last = syscall.SIGTERM
			}
			v := mountView(t)
			write(t, v.raw("f"), "")
			entered, ended := make(chan struct{}, 1), make(chan struct{})
			v.g.set(func() {
				v.g.write = func(ctx ctxT, _ Caller, _ Op, _ []Target) syscall.Errno {
					entered <- struct{}{}
					<-ctx.Done()
					close(ended)
					return syscall.EINTR
				}
			})
			c := helper(t, "append", v.in("f"))
			c.Env = append(c.Env, "FUSEFS_CATCH=1")
			c.Stderr = nil
			require.NoError(t, c.Start())
			<-entered
			require.NoError(t, c.Process.Signal(tc.harmless))
			select {
			case <-ended:
				t.Fatal("the wait ended at a harmless signal")
			case <-time.After(4 * interruptPoll):
			}
			require.NoError(t, c.Process.Signal(tc.last))
			select {
			case <-ended:
			case <-time.After(time.Minute):
				t.Fatal("the wait continued although the caller is to end")
			}
			require.Error(t, c.Wait())
		})
	}
}

func TestSignalsOfAStatusFile(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "SigPnd:\t0": true,
		"SigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\nSigBlk:\t0000000000000000\n": false,
		"SigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\nSigBlk:\t0000000000000000\n": true,
		"SigPnd:\t0000000000000000\nShdPnd:\t0000000000004000\nSigBlk:\t0000000000000000\n": true,
		"SigPnd:\t0000000000000000\nShdPnd:\t0000000000004000\nSigBlk:\t0000000000004000\n": false,
		"SigPnd:\t0000000000400000\nShdPnd:\t0000000000002000\nSigBlk:\t0000000000000000\n": false,
		"SigPnd:\tzz\nShdPnd:\t0\nSigBlk:\t0\n":                                             true,
	} {
		require.Equal(t, want, endingStatus([]byte(text)), text)
	}
}

func modeOf(t testing.TB, path string) os.FileMode {
	t.Helper()
	fi, err := os.Lstat(path)
	require.NoError(t, err)
	return fi.Mode()
}
