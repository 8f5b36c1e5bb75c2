package fusefs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
)

const (
	manyFiles = 30000
	fewFiles  = 512 // RLIMIT_NOFILE
	// inodeBytes bounds what one known file costs the server's heap.
	inodeBytes = 1500
)

// A view of far more files than its server may have open: all of them are
// looked up, read and known to the kernel at once.
func TestAViewOfMoreFilesThanDescriptors(t *testing.T) {
	needFUSE(t)
	c := helper(t, "bounded", t.TempDir(), t.TempDir())
	out, err := c.Output()
	require.NoError(t, err)
	t.Log(string(out))
}

// bounded serves args[0] at args[1] with few descriptors and reads everything.
func bounded(back, mnt string) (err error) {
	const dirs = 600 // more than there are descriptors, too
	for i := range manyFiles {
		dir := filepath.Join(back, strconv.Itoa(i%dirs))
		if i < dirs {
			if err := os.Mkdir(dir, 0o755); err != nil {
				return err
			}
		}
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), []byte("text"), 0o644); err != nil {
			return err
		}
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: fewFiles, Max: fewFiles}); err != nil {
		return err
	}
	root, err := unix.Open(back, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer backing.Close(root)
	fs, err := New(Config{Roots: []int{root}, Guard: newCacheable(), Mountpoint: mnt, FsName: "polis-test", DirDescriptors: 100, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := fs.Mount(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fs.Unmount(ctx)) }()
	before := heap()
	for i := range manyFiles {
		b, err := os.ReadFile(filepath.Join(mnt, strconv.Itoa(i%dirs), strconv.Itoa(i)))
		if err != nil || string(b) != "text" {
			return fmt.Errorf("file %d: %q: %w", i, b, err)
		}
	}
	known := len(fs.tree.All())
	if known < manyFiles {
		return fmt.Errorf("%d inodes are known, not %d", known, manyFiles)
	}
	each := (heap() - before) / int64(known)
	if each > inodeBytes {
		return fmt.Errorf("%d bytes an inode, more than %d", each, inodeBytes)
	}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(os.Stdout, "%d inodes, %d bytes each, %d descriptors\n", known, each, len(fds))
	runtime.KeepAlive(fs)
	return err
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
