package relisten

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"polis/daemon/host/acl"
	"polis/internal/need"
)

// testing.TB and *rapid.T.
type tester interface {
	require.TestingT
	Helper()
}

// following makes a socket below two directories, and serves it: each connection gets an "x".
func following(t testing.TB, o Options) (*Listener, string) {
	t.Helper()
	root, err := os.MkdirTemp("/tmp", "relisten-") // short, because a socket's path is bounded
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(root)) })
	require.NoError(t, os.Chmod(root, 0o755))
	path := filepath.Join(root, "run", "a", "s")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o711))
	require.NoError(t, os.Chmod(filepath.Dir(path), 0o750))
	l, err := Private(path)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(path, 0o620))
	f, err := Follow(l, path, o)
	require.NoError(t, err)
	serve(t, f)
	return f, path
}

func serve(t testing.TB, f *Listener) {
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := f.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("x"))
			_ = c.Close()
		}
	})
	t.Cleanup(func() { require.NoError(t, f.Close()); wg.Wait() })
}

// answers reports whether the listener serves what path leads to.
func answers(path string) bool {
	c, err := net.Dial("unix", path)
	if err != nil {
		return false
	}
	defer c.Close()
	n, _ := c.Read(make([]byte, 1))
	return n == 1
}

func check(t tester, f *Listener, want string) {
	t.Helper()
	found, err := f.Check()
	require.NoError(t, err)
	require.Equal(t, want, found)
}

func TestARemovedSocketIsMadeAgainWithItsOwnerModeAndList(t *testing.T) {
	need.Root(t)
	f, path := following(t, Options{})
	require.NoError(t, os.Chown(path, 123, 456))
	require.NoError(t, os.Chmod(path, 0o660))
	list := acl.Encode(acl.Entry{Tag: acl.UserObj, Perm: 6}, acl.Entry{Tag: acl.GroupObj, Perm: 6},
		acl.Entry{Tag: acl.Group, Perm: 6, ID: 12345}, acl.Entry{Tag: acl.Mask, Perm: 6}, acl.Entry{Tag: acl.Other})
	require.NoError(t, unix.Setxattr(path, acl.Attribute, list, 0))
	check(t, f, "")
	old, err := net.Dial("unix", path) // of before: it is served
	require.NoError(t, err)
	defer old.Close()
	for range 3 {
		require.NoError(t, os.Remove(path))
		check(t, f, Removed)
		require.True(t, answers(path))
		var st unix.Stat_t
		require.NoError(t, unix.Lstat(path, &st))
		require.Equal(t, []uint32{123, 456, unix.S_IFSOCK | 0o660}, []uint32{st.Uid, st.Gid, st.Mode})
		got := make([]byte, 100)
		n, err := unix.Getxattr(path, acl.Attribute, got)
		require.NoError(t, err)
		require.Equal(t, list, got[:n])
		require.NoFileExists(t, path+".new")
		check(t, f, "")
	}
	n, _ := old.Read(make([]byte, 1))
	require.Equal(t, 1, n)
}

// TestASocketThatWasMovedAwayAndBackWorks: no name leads to a socket that nobody serves.
func TestASocketThatWasMovedAwayAndBackWorks(t *testing.T) {
	f, path := following(t, Options{})
	require.NoError(t, os.Rename(path, path+".away"))
	require.True(t, answers(path+".away"))
	check(t, f, Removed)
	require.True(t, answers(path))
	require.NoError(t, os.Rename(path+".away", path))
	require.True(t, answers(path))
	check(t, f, "")
	require.NoError(t, os.Link(path, path+".link"))
	require.NoError(t, os.Remove(path))
	check(t, f, Removed)
	require.True(t, answers(path))
	require.True(t, answers(path+".link"))
}

func TestWhatHasTheNameIsReplacedAndNotFollowed(t *testing.T) {
	f, path := following(t, Options{})
	other := filepath.Join(filepath.Dir(path), "other")
	require.NoError(t, os.WriteFile(other, []byte("theirs"), 0o644))
	for name, put := range map[string]func() error{
		"a file":                       func() error { return os.WriteFile(path, []byte("a"), 0o666) },
		"a link to a file":             func() error { return os.Symlink(other, path) },
		"a link to nothing":            func() error { return os.Symlink(other+"2", path) },
		"a pipe":                       func() error { return unix.Mkfifo(path, 0o666) },
		"a socket":                     func() error { l, err := Private(path); return firstOf(err, l) },
		"a link at the name before":    func() error { return firstOf(os.Symlink(other, path+".new"), os.WriteFile(path, nil, 0o600)) },
		"a socket that others can use": func() error { l, err := Private(path); return firstOf(err, l, os.Chmod(path, 0o777)) },
	} {
		require.NoError(t, os.Remove(path), name)
		require.NoError(t, put(), name)
		check(t, f, Replaced)
		fi, err := os.Lstat(path)
		require.NoError(t, err)
		require.Equal(t, os.ModeSocket|0o620, fi.Mode(), name)
		require.True(t, answers(path), name)
		b, err := os.ReadFile(other)
		require.NoError(t, err, name)
		require.Equal(t, "theirs", string(b), name)
		require.NoFileExists(t, other+"2")
	}
}

func firstOf(vs ...any) error {
	for _, v := range vs {
		if err, ok := v.(error); ok {
			return err
		}
	}
	return nil
}

// TestAFailureIsRepeatedAndLeavesNoName: a socket has its name only when everything of it is set.
func TestAFailureIsRepeatedAndLeavesNoName(t *testing.T) {
	f, path := following(t, Options{})
	check(t, f, "")
	require.NoError(t, os.Remove(path))
	f.access.list = []byte("no list")
	for range 2 {
		found, err := f.Check()
		require.ErrorContains(t, err, "access control list")
		require.Equal(t, Removed, found)
		require.NoFileExists(t, path)
		require.NoFileExists(t, path+".new")
	}
	f.access.list = nil
	require.NoError(t, os.Mkdir(path, 0o755))
	_, err := f.Check()
	require.ErrorIs(t, err, unix.EISDIR)
	require.DirExists(t, path)
	require.NoError(t, os.Remove(path))
	check(t, f, Removed)
	require.True(t, answers(path))
}

func TestARemovedDirectoryIsMadeAgainWithItsMode(t *testing.T) {
	f, path := following(t, Options{})
	a, run := filepath.Dir(path), filepath.Dir(filepath.Dir(path))
	for name, lose := range map[string]func() error{
		"removed":           func() error { return os.RemoveAll(a) },
		"with its parent":   func() error { return os.RemoveAll(run) },
		"moved":             func() error { return os.Rename(a, a+"-away") },
		"replaced":          func() error { return firstOf(os.RemoveAll(a), os.Mkdir(a, 0o750)) },
		"moved with parent": func() error { return os.Rename(run, run+"-away") },
	} {
		require.NoError(t, lose(), name)
		check(t, f, DirGone)
		require.True(t, answers(path), name)
		for dir, mode := range map[string]os.FileMode{a: 0o750, run: 0o711} {
			fi, err := os.Stat(dir)
			require.NoError(t, err, name)
			require.Equal(t, mode, fi.Mode().Perm(), name)
		}
		fi, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o620), fi.Mode().Perm())
	}
	require.True(t, answers(filepath.Join(a+"-away", "s")) || answers(filepath.Join(run+"-away", "a", "s")), "the sockets in directories that were moved are served")
	require.NoError(t, os.RemoveAll(a))
	require.NoError(t, os.Rename(filepath.Join(run+"-away", "a"), a))
	found, err := f.Check()
	require.NoError(t, err)
	require.Contains(t, []string{"", DirGone}, found)
	require.True(t, answers(path))
}

// TestADirectoryOfAnotherUserIsRefused: nothing is made where another user could exchange it.
func TestADirectoryOfAnotherUserIsRefused(t *testing.T) {
	need.Root(t)
	f, path := following(t, Options{})
	a := filepath.Dir(path)
	run := filepath.Dir(a)
	theirs := filepath.Join(filepath.Dir(run), "theirs")
	require.NoError(t, os.Mkdir(theirs, 0o755))
	require.NoError(t, os.Mkdir(filepath.Join(theirs, "a"), 0o755))
	for name, c := range map[string]struct {
		put func() error
		err string
	}{
		"a link":                     {func() error { return os.Symlink(theirs, run) }, "not a directory"},
		"a file":                     {func() error { return os.WriteFile(run, nil, 0o644) }, "not a directory"},
		"another user's directory":   {func() error { return firstOf(os.Mkdir(run, 0o755), os.Chown(run, 1234, 1234)) }, "belongs to user 1234"},
		"one that others can change": {func() error { return firstOf(os.Mkdir(run, 0o755), os.Chmod(run, 0o777)) }, "other users can change it"},
		"another user's in it": {func() error {
			return firstOf(os.Mkdir(run, 0o755), os.Mkdir(a, 0o755), os.Chown(a, 1234, 1234))
		}, "belongs to user 1234"},
	} {
		require.NoError(t, os.RemoveAll(run), name)
		require.NoError(t, c.put(), name)
		found, err := f.Check()
		require.ErrorContains(t, err, c.err, name)
		require.Equal(t, DirGone, found, name)
		require.NoFileExists(t, path, name)
		require.NoFileExists(t, filepath.Join(theirs, "a", "s"), name)
	}
	require.NoError(t, os.RemoveAll(run))
	check(t, f, DirGone)
	require.True(t, answers(path))
}

func TestAFixedDirectoryIsTheOnlyOne(t *testing.T) {
	f, path := following(t, Options{Fixed: true})
	a := filepath.Dir(path)
	require.NoError(t, os.Rename(a, a+"-away")) // where others have it mounted
	check(t, f, "")
	require.NoError(t, os.Remove(filepath.Join(a+"-away", "s")))
	check(t, f, Removed)
	require.True(t, answers(filepath.Join(a+"-away", "s")))
	require.NoFileExists(t, a)
	require.NoError(t, os.RemoveAll(a+"-away"))
	_, err := f.Check()
	require.ErrorIs(t, err, errFixed)
}

func TestAnInheritedSocketIsMadeAgainUnlessItHasAListener(t *testing.T) {
	for name, c := range map[string]struct {
		found string
		lose  func(path string) error
	}{
		"as it was made": {"", func(string) error { return nil }},
		"removed":        {Removed, os.Remove},
		"a dead one is there": {Unlistened, func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			l, err := Private(path)
			return firstOf(err, l.Close())
		}},
		"a file is there": {Replaced, func(path string) error { return firstOf(os.Remove(path), os.WriteFile(path, nil, 0o600)) }},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("/tmp", "relisten-")
			require.NoError(t, err)
			defer os.RemoveAll(dir)
			path := filepath.Join(dir, "s")
			l, err := Private(path)
			require.NoError(t, err)
			require.NoError(t, c.lose(path))
			f, err := Inherit(l, path, Options{UID: os.Geteuid(), GID: os.Getegid(), Mode: 0o666})
			require.NoError(t, err)
			check(t, f, c.found)
			serveProbe(t, f, c.found == "")
			require.True(t, answers(path))
			fi, err := os.Stat(path)
			require.NoError(t, err)
			require.Equal(t, map[bool]os.FileMode{true: 0o600, false: 0o666}[c.found == ""], fi.Mode().Perm())
		})
	}
}

// serveProbe serves a listener whose first connection can be that of the examination.
func serveProbe(t *testing.T, f *Listener, probed bool) {
	if probed {
		c, err := f.Accept()
		require.NoError(t, err)
		require.NoError(t, c.Close())
	}
	serve(t, f)
}

// TestSocketsAreBounded: also the descriptors of those that were removed.
func TestSocketsAreBounded(t *testing.T) {
	f, path := following(t, Options{})
	require.NoError(t, os.Link(path, path+".first"))
	open := func() int { e, err := os.ReadDir("/proc/self/fd"); require.NoError(t, err); return len(e) }
	before := open()
	for range 5 * maxSockets {
		require.NoError(t, os.Remove(path))
		check(t, f, Removed)
	}
	require.Len(t, f.sockets, maxSockets)
	require.LessOrEqual(t, open(), before+maxSockets)
	require.True(t, answers(path))
	require.True(t, answers(path+".first"), "the first may be held by another program")
}

func TestAClosedListenerMakesNothing(t *testing.T) {
	f, path := following(t, Options{})
	require.NoError(t, f.Close())
	require.NoError(t, f.Close())
	_, err := f.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	require.NoError(t, os.Remove(path))
	check(t, f, "")
	require.NoFileExists(t, path)
	require.Equal(t, path, f.Addr().String())
}

// TestConnectionsAreServedWhileTheSocketIsRemoved: one that was accepted is never lost.
func TestConnectionsAreServedWhileTheSocketIsRemoved(t *testing.T) {
	f, path := following(t, Options{})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	served := make(chan int, 4)
	for range 4 {
		wg.Go(func() {
			n := 0
			for {
				select {
				case <-stop:
					served <- n
					return
				default:
				}
				c, err := net.Dial("unix", path)
				if err != nil {
					continue
				}
				if k, _ := c.Read(make([]byte, 1)); k == 1 {
					n++
				} else {
					t.Error("a connection was not served")
				}
				_ = c.Close()
			}
		})
	}
	for range maxSockets - 1 { // more would close the oldest
		require.NoError(t, os.Remove(path))
		check(t, f, Removed)
		for range 20 {
			require.True(t, answers(path))
		}
	}
	close(stop)
	wg.Wait()
	for range 4 {
		require.Positive(t, <-served)
	}
}

// TestAfterACheckThePathIsServed: whatever was done to the names.
func TestAfterACheckThePathIsServed(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		f, path := following(t, Options{})
		defer f.Close()
		a, away := filepath.Dir(path), 0
		for i := range rapid.IntRange(1, 6).Draw(r, "steps") {
			switch rapid.SampledFrom([]string{"remove", "file", "link", "move", "back", "rmdir", "mvdir", "chmod"}).Draw(r, fmt.Sprint("step ", i)) {
			case "remove":
				_ = os.Remove(path)
			case "file":
				_ = os.Remove(path)
				_ = os.WriteFile(path, nil, 0o644)
			case "link":
				_ = os.Remove(path)
				_ = os.Symlink(path+"-none", path)
			case "move":
				away++
				_ = os.Rename(path, fmt.Sprint(path, away))
			case "back":
				_ = os.Rename(fmt.Sprint(path, away), path)
			case "rmdir":
				_ = os.RemoveAll(a)
			case "mvdir":
				_ = os.Rename(a, fmt.Sprint(a, i))
			case "chmod":
				_ = os.Chmod(path, 0o600)
			}
			if rapid.Bool().Draw(r, "checked") {
				_, err := f.Check()
				require.NoError(r, err)
				require.True(r, answers(path))
			}
		}
		_, err := f.Check()
		require.NoError(r, err)
		require.True(r, answers(path))
		check(r, f, "")
	})
}
