package sessionbus

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/internal/need"
)

// Silence mounts a file system of a user that reads requests and answers none (fuse(4)), and that all users reach. It
// ends with the test, or by end.
func Silence(t testing.TB, dir string, uid int) (end func()) {
	t.Helper()
	need.Device(t, "/dev/fuse")
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Mount("test", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV,
		fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d,allow_other", fd, uid, uid)))
	go func() {
		// Until the mount has ended, which is ENODEV. The first request is FUSE_INIT.
		for in, first := make([]byte, 1<<20), true; ; first = false {
			if n, err := unix.Read(fd, in); err != nil && err != unix.EINTR || n == 0 {
				return
			}
			if !first {
				continue
			}
			out := make([]byte, 16+64) // struct fuse_out_header, struct fuse_init_out
			binary.NativeEndian.PutUint32(out, uint32(len(out)))
			copy(out[8:16], in[8:16])                      // unique
			copy(out[16:24], in[40:48])                    // the version
			copy(out[24:28], in[48:52])                    // max_readahead
			binary.NativeEndian.PutUint32(out[36:], 4<<10) // max_write
			_, _ = unix.Write(fd, out)                     //nolint:errcheck // the mount may have ended
		}
	}()
	ended := false
	end = func() {
		if !ended {
			ended = true
			require.NoError(t, unix.Unmount(dir, unix.MNT_FORCE|unix.MNT_DETACH)) // answers what waits with an error
		}
	}
	t.Cleanup(func() { end(); _ = unix.Close(fd) }) //nolint:errcheck // it was read only
	return end
}
