package upper_test

import (
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The view reads which path a program's call has, and the program can change it meanwhile. Then calls can fail, but each
// has the file that the kernel has found, and may do what the rules say of that file's names.
func TestAPathThatChangesDuringItsCallOpensNoOtherFile(t *testing.T) {
	s := mount(t, nil)
	require.NoError(t, os.WriteFile(s.in("a"), []byte("protected"), 0o644))
	require.NoError(t, os.Link(s.in("a"), s.in("b")))
	s.g.refuse("b", syscall.EACCES)
	require.NoError(t, os.Remove(s.in("a")))
	require.NoError(t, os.WriteFile(s.in("a"), []byte("other"), 0o644))
	path := append([]byte(s.in("a")), 0)
	last := &path[len(path)-2]
	var done atomic.Bool
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; !done.Load(); i++ {
			*last = "ab"[i%2] // a race on purpose
		}
	}()
	defer func() { done.Store(true); <-stopped }()
	open := func(flags int) (int, error) {
		fd, _, e := syscall.Syscall6(unix.SYS_OPENAT, ^uintptr(99), uintptr(unsafe.Pointer(&path[0])), uintptr(flags), 0, 0, 0)
		if e != 0 {
			return -1, e
		}
		return int(fd), nil
	}
	found := map[string]int{}
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		if fd, err := open(unix.O_RDONLY | unix.O_CLOEXEC); err == nil {
			buf := make([]byte, 64)
			n, err := unix.Read(fd, buf)
			require.NoError(t, err)
			at, err := os.Readlink(filepath.Join("/proc/self/fd", strconv.Itoa(fd)))
			require.NoError(t, err)
			name := filepath.Base(at)
			require.Equal(t, map[string]string{"a": "other", "b": "protected"}[name], string(buf[:n]), name)
			found[name]++
			unix.Close(fd)
		} else {
			require.ErrorIs(t, err, unix.ESTALE)
		}
		if fd, err := open(unix.O_WRONLY | unix.O_CLOEXEC); err == nil {
			at, err := os.Readlink(filepath.Join("/proc/self/fd", strconv.Itoa(fd)))
			require.NoError(t, err)
			require.Equal(t, "a", filepath.Base(at))
			unix.Close(fd)
		} else {
			require.Contains(t, []error{unix.EACCES, unix.ESTALE}, err)
		}
	}
	require.NotZero(t, found["a"])
	require.NotZero(t, found["b"])
}
