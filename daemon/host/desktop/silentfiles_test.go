package desktop

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/host/command"
	"polis/internal/need"
	"polis/internal/sessionbus"
)

// silentFiles mounts a file system of the user that reads requests and answers none (fuse(4)). It ends with the test, or
// by end.
func silentFiles(t *testing.T, dir string) (end func()) {
	t.Helper()
	need.Device(t, "/dev/fuse")
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Mount("test", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV,
		fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d", fd, user, user)))
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
			_, _ = unix.Write(fd, out)
		}
	}()
	ended := false
	end = func() {
		if !ended {
			ended = true
			require.NoError(t, unix.Unmount(dir, unix.MNT_FORCE|unix.MNT_DETACH)) // answers what waits with an error
		}
	}
	t.Cleanup(func() { end(); _ = unix.Close(fd) })
	return end
}

// TestAFileSystemThatNeverAnswersIsNotWaitedFor: SIGKILL does not end the child then. The user gets no other one before
// it has ended.
func TestAFileSystemThatNeverAnswersIsNotWaitedFor(t *testing.T) {
	need.Root(t)
	dir := sessionbus.Dir(t, user)
	end := silentFiles(t, dir)
	began := time.Now()
	unseen(t, Failed, command.ErrUnended.Error())
	require.Less(t, time.Since(began), 20*time.Second+10*time.Second, "20 is what the package promises")
	began = time.Now()
	unseen(t, Failed, "not started")
	require.Less(t, time.Since(began), 5*time.Second)
	end()
	require.Eventually(t, func() bool {
		err := Show(t.Context(), credential(), Note{Title: "x"})
		return err != nil && err.Error() == string(NoSession)
	}, 30*time.Second, 10*time.Millisecond, "it has ended")
	_, err := os.Lstat(filepath.Join(dir, "bus"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
