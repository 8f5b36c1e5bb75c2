package openfile

import (
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
)

// There is an Inode for each of hundreds of thousands: when its files are closed, what
// only open files need is gone.
func TestAClosedFileKeepsLittle(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(Inode{}), uintptr(24))
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(path, []byte("text"), 0o600))
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	st, e := backing.StatAt(fd, "")
	require.Zero(t, e)
	var i Inode
	var p Passthrough
	require.True(t, i.SetAttr(&st, true))
	for _, h := range []*Handle{{FD: fd, Writable: true, Mappable: true}, {FD: -1}} {
		if h.FD < 0 {
			require.True(t, i.OpenLazy(h, func(size uint32) { require.EqualValues(t, 4, size) }))
		} else {
			var out fuse.OpenOut
			p.Attach(&i, h, Opening{Attr: &st, Exclusive: true}, &out)
		}
		require.NotNil(t, i.use)
		i.Release(h)
		require.Nil(t, i.use)
	}
	require.False(t, i.Writing())
	require.False(t, i.Passthrough())
	_, ok := i.Dup()
	require.False(t, ok)
}
