package conn

import (
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/fuseuring"
	"polis/internal/need"
)

// testFS has files 2 and 3 named "file" and "slow"; opening the second waits.
// Whatever is not answered here is ENOSYS.
// other holds the test's end of offline connections.
var other sync.Map

type testFS struct {
	FileSystem // nil: what is called unexpectedly panics

	hold func(c *Call)
	stat atomic.Int32 // of open
	boom atomic.Bool
}

func attr(node uint64) fuse.Attr {
	mode := uint32(unix.S_IFREG | 0o644)
	if node == fuse.FUSE_ROOT_ID {
		mode = unix.S_IFDIR | 0o755
	}
	return fuse.Attr{Ino: node, Mode: mode, Nlink: 1, Size: maxData}
}

func (f *testFS) Lookup(_ *Call, _ *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	out.NodeId = map[string]uint64{"file": 2, "slow": 3}[name]
	if out.NodeId == 0 {
		return fuse.ENOENT
	}
	out.Attr = attr(out.NodeId)
	return fuse.OK
}

func (f *testFS) Forget(_, _ uint64) {}

func (f *testFS) GetAttr(_ *Call, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	out.Attr = attr(in.NodeId)
	return fuse.OK
}

func (f *testFS) Open(c *Call, in *fuse.OpenIn, _ *fuse.OpenOut) fuse.Status {
	switch {
	case f.boom.Load():
		panic("boom")
	case in.NodeId == 3 && f.hold != nil:
		f.hold(c)
		return fuse.EINTR
	}
	return fuse.Status(f.stat.Load())
}

func (f *testFS) Read(_ *Call, in *fuse.ReadIn, dest []byte) (int, fuse.Status) {
	n := min(len(dest), int(max(0, maxData-int64(in.Offset))))
	for i := range dest[:n] {
		dest[i] = byte(i)
	}
	return n, fuse.OK
}

func (f *testFS) Flush(*Call, *fuse.FlushIn) fuse.Status { return fuse.ENOSYS }
func (f *testFS) Release(*Call, *fuse.ReleaseIn)         {}
func (f *testFS) StatFs(*Call, *fuse.InHeader, *fuse.StatfsOut) fuse.Status {
	return fuse.OK
}

// offline is a connection whose other end is the test.
func offline(t testing.TB, fs FileSystem) *Conn {
	t.Helper()
	o := Options{Mountpoint: "/", Subtype: "test", MaxWrite: maxData, OnPanic: func(any) {}, Log: slog.New(slog.DiscardHandler)}
	require.NoError(t, o.complete())
	c := newConn(fs, o)
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	require.NoError(t, err)
	c.fd = p[0]
	other.Store(c, p[1])
	t.Cleanup(func() {
		unix.Close(p[0])
		unix.Close(p[1])
	})
	return c
}

// answers are the headers of what was written since.
func answers(t testing.TB, c *Conn) []fuse.OutHeader {
	t.Helper()
	end, ok := other.Load(c)
	require.True(t, ok)
	var out []fuse.OutHeader
	buf := make([]uint64, (maxData+replySize)/8)
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(buf))), maxData+replySize)
	for {
		n, err := unix.Read(end.(int), b)
		if errors.Is(err, unix.EAGAIN) {
			return out
		}
		require.NoError(t, err)
		h := (*fuse.OutHeader)(unsafe.Pointer(unsafe.SliceData(b)))
		require.EqualValues(t, n, h.Length)
		out = append(out, *h)
	}
}

// mount serves fs for the length of the test.
func mount(t *testing.T, fs FileSystem, change ...func(*Options)) (*Conn, string) {
	t.Helper()
	need.Root(t)
	dir := t.TempDir()
	o := Options{Mountpoint: dir, Subtype: "polistest", MaxWrite: maxData, MaxBackground: 16, StackDepth: 1, Capabilities: fuse.CAP_MAX_PAGES | fuse.CAP_ASYNC_READ, Log: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&o)
	}
	if o.Capabilities&fuse.CAP_OVER_IO_URING != 0 {
		_, err := fuseuring.SetEnabled(true) // spawnReader package may have turned it back
		require.NoError(t, err)
	}
	c, err := Mount(fs, o)
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- c.Serve() }()
	t.Cleanup(func() {
		require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH))
		select {
		case err := <-served:
			require.NoError(t, err)
		case <-time.After(20 * time.Second):
			t.Error("the connection does not end")
		}
		require.False(t, c.Alive())
		for _, q := range append(c.queues, &c.dev) {
			require.Zero(t, q.readers.Load(), "readers left")
		}
	})
	require.NoError(t, c.Probe())
	require.Equal(t, o.Capabilities&fuse.CAP_OVER_IO_URING != 0, c.queues != nil)
	return c, dir
}

// overBoth runs a test with requests from the device, and with requests from
// rings if the kernel has them.
func overBoth(t *testing.T, test func(t *testing.T, over func(*Options))) {
	t.Run("from the device", func(t *testing.T) { test(t, func(*Options) {}) })
	before, err := fuseuring.SetEnabled(true)
	if errors.Is(err, fuseuring.ErrNone) || errors.Is(err, os.ErrPermission) {
		t.Log("not from rings:", err) // without root no test mounts anything
		return
	}
	require.NoError(t, err)
	defer func() {
		_, err := fuseuring.SetEnabled(before)
		require.NoError(t, err)
	}()
	t.Run("from rings", func(t *testing.T) {
		test(t, func(o *Options) { o.Capabilities |= fuse.CAP_OVER_IO_URING })
	})
}

func addr(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
