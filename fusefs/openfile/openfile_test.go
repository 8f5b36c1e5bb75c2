package openfile

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
)

// fakeKernel registers files, or refuses with an errno.
type fakeKernel struct {
	refuse     syscall.Errno
	opened     int
	registered map[int32]bool
}

func (k *fakeKernel) OpenBacking(int) (int32, syscall.Errno) {
	k.opened++
	if k.refuse != 0 {
		return 0, k.refuse
	}
	id := int32(k.opened)
	k.registered[id] = true
	return id, 0
}

func (k *fakeKernel) CloseBacking(id int32) syscall.Errno {
	if !k.registered[id] {
		return syscall.ENOENT
	}
	delete(k.registered, id)
	return 0
}

func newPassthrough(k *fakeKernel, log *slog.Logger) *Passthrough {
	k.registered = map[int32]bool{}
	p := &Passthrough{Log: log}
	p.Mounted(k, true)
	return p
}

// open attaches a new open of a file.
func open(t *testing.T, p *Passthrough, i *Inode, path string, flags int, more Opening) (*Handle, *fuse.OpenOut) {
	t.Helper()
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	st, e := backing.StatAt(fd, "")
	require.Zero(t, e)
	more.Attr = &st
	h := &Handle{FD: fd, Writable: flags&unix.O_ACCMODE != unix.O_RDONLY, Mappable: flags&unix.O_ACCMODE == unix.O_RDWR}
	var out fuse.OpenOut
	p.Attach(i, h, more, &out)
	return h, &out
}

func file(t *testing.T, size int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("x"), size), 0o600))
	return path
}

func TestAnInodeIsRegisteredOnceAndKeepsItsModeUntilTheLastRelease(t *testing.T) {
	k := &fakeKernel{}
	p := newPassthrough(k, slog.New(slog.DiscardHandler))
	path := file(t, 10)
	var i Inode
	w, out := open(t, p, &i, path, unix.O_RDWR, Opening{})
	require.NotZero(t, out.OpenFlags&fuse.FOPEN_PASSTHROUGH)
	r, out := open(t, p, &i, path, unix.O_RDONLY, Opening{})
	require.NotZero(t, out.OpenFlags&fuse.FOPEN_PASSTHROUGH, "a small file that is only read joins the mode of the others")
	require.Equal(t, 1, k.opened)
	require.True(t, i.Passthrough())
	require.False(t, i.OpenLazy(&Handle{FD: -1}, func(uint32) { t.Fatal("prefilled") }), "cached and passthrough opens never meet")

	i.Release(w)
	require.True(t, i.Passthrough())
	i.Release(r)
	require.False(t, i.Passthrough())
	r, out = open(t, p, &i, path, unix.O_RDONLY, Opening{})
	require.Zero(t, out.OpenFlags&fuse.FOPEN_PASSTHROUGH, "the first open chooses again")
	i.Release(r)
	w, _ = open(t, p, &i, path, unix.O_RDWR, Opening{})
	require.Equal(t, 1, k.opened, "the registration lasts until the inode is forgotten")
	i.Release(w)
	p.Unregister(&i)
	require.Empty(t, k.registered)
}

func TestWhatIsServedByTheServer(t *testing.T) {
	for name, c := range map[string]struct {
		size, flags int
		mode        os.FileMode
		more        Opening
		direct      bool
	}{
		"large, read":                        {SmallFile + 1, unix.O_RDONLY, 0o600, Opening{}, true},
		"small, read":                        {SmallFile, unix.O_RDONLY, 0o600, Opening{}, false},
		"written":                            {1, unix.O_WRONLY, 0o600, Opening{UID: 1000}, true},
		"written, may be replaced":           {1, unix.O_WRONLY, 0o600, Opening{Replaceable: true}, false},
		"with a set-id bit, written by root": {1, unix.O_WRONLY, 0o600 | os.ModeSetuid, Opening{}, true},
		"with a set-id bit, written by an unprivileged": {1, unix.O_WRONLY, 0o600 | os.ModeSetuid, Opening{UID: 1000}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPassthrough(&fakeKernel{}, slog.New(slog.DiscardHandler))
			path := file(t, c.size)
			require.NoError(t, os.Chmod(path, c.mode))
			var i Inode
			h, _ := open(t, p, &i, path, c.flags, c.more)
			require.Equal(t, c.direct, i.Passthrough())
			i.Release(h)
		})
	}
}

func TestARefusedRegistrationIsServedAndLoggedOnce(t *testing.T) {
	for refuse, on := range map[syscall.Errno]bool{syscall.EPERM: false, syscall.ELOOP: true} {
		var log strings.Builder
		k := &fakeKernel{refuse: refuse}
		p := newPassthrough(k, slog.New(slog.NewTextHandler(&log, nil)))
		path := file(t, 1)
		for range 3 {
			var i Inode
			h, out := open(t, p, &i, path, unix.O_WRONLY, Opening{})
			require.Zero(t, out.OpenFlags&fuse.FOPEN_PASSTHROUGH)
			i.Release(h)
		}
		require.Equal(t, on, p.On(), "%v", refuse)
		require.Equal(t, 1, strings.Count(log.String(), "passthrough refused"))
		if on {
			require.Equal(t, 3, k.opened)
		} else {
			require.Equal(t, 1, k.opened, "what holds for every file is not tried again")
		}
	}
}

func TestLazyHandlesShareOneDescriptor(t *testing.T) {
	path := file(t, 100)
	var st unix.Statx_t
	require.NoError(t, unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_BASIC_STATS, &st))
	var i Inode
	prefills := 0
	prefill := func(size uint32) {
		require.EqualValues(t, 100, size)
		prefills++
	}
	a, b := &Handle{FD: -1}, &Handle{FD: -1}
	require.False(t, i.OpenLazy(a, prefill), "its attributes are not known")
	require.True(t, i.SetAttr(&st, true))
	require.True(t, i.OpenLazy(a, prefill))
	require.True(t, i.OpenLazy(b, prefill))
	require.Equal(t, 1, prefills)
	_, ok := i.ReadFD(a)
	require.False(t, ok)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	require.Equal(t, fd, i.SetReadFD(fd))
	second, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	require.Equal(t, fd, i.SetReadFD(second), "another request was faster")
	_, err = unix.FcntlInt(uintptr(second), unix.F_GETFD, 0)
	require.ErrorIs(t, err, unix.EBADF)
	i.Release(a)
	got, ok := i.ReadFD(b)
	require.True(t, ok)
	require.Equal(t, fd, got)
	i.Release(b)
	_, err = unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	require.ErrorIs(t, err, unix.EBADF, "it is closed with the last of them")

	i.Invalidate()
	require.False(t, i.OpenLazy(a, prefill))
}

func TestABudgetIsNeverExceeded(t *testing.T) {
	var table Table[*Handle]
	table.Init(10)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				if table.Budget.Reserve() != 0 {
					continue
				}
				h := &Handle{FD: -1}
				fh := table.Add(h)
				if n := len(table.All()); n > table.Budget.Limit() {
					t.Errorf("%d handles", n)
				}
				if table.Get(fh) != h || table.Take(fh) != h || table.Take(fh) != nil || table.Get(fh) != nil {
					t.Error("a handle is found under its number until it is taken")
				}
			}
		})
	}
	wg.Wait()
	for range 10 {
		require.Zero(t, table.Budget.Reserve())
	}
	require.Equal(t, syscall.ENFILE, table.Budget.Reserve())
	table.Budget.Unreserve()
	require.Zero(t, table.Budget.Reserve())
}
