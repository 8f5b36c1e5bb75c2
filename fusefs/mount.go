package fusefs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/apart"
	"polis/fusefs/conn"
	"polis/fusefs/fusectl"
)

// capabilities are what the view asks the kernel for. Truncation is decided
// inside OPEN, and set-id bits are ours to clear: no security.capability
// question before every write. NO_OPEN_SUPPORT is not among them: an OPEN that
// is not asked for is a hole. Nor is WRITEBACK_CACHE, which excludes
// passthrough.
const capabilities = fuse.CAP_ASYNC_READ | fuse.CAP_BIG_WRITES | fuse.CAP_FILE_OPS | fuse.CAP_MAX_PAGES |
	fuse.CAP_READDIRPLUS | fuse.CAP_PARALLEL_DIROPS | fuse.CAP_AUTO_INVAL_DATA |
	fuse.CAP_ATOMIC_O_TRUNC | fuse.CAP_HANDLE_KILLPRIV_V2

// leastReaders and readersPerCPU bound the readers of one view: each has a thread and its stack.
// With io_uring each processor's queue has its part of them. What waits for a lease or for a
// commander's answer has no reader (see Wait), and when no further reader is available an operation
// that might be slow does without one, too.
const (
	leastReaders  = 24
	readersPerCPU = 4
)

// maxDeferred bounds the operations of one view that wait: one more fails with EAGAIN.
const maxDeferred = 1024

func (fs *FS) options() conn.Options {
	o := conn.Options{
		Mountpoint: fs.cfg.Mountpoint, FsName: fs.cfg.FsName, Subtype: "polis",
		MaxWrite: maxWrite, MaxBackground: 64, Readers: max(leastReaders, readersPerCPU*runtime.NumCPU()), Deferred: maxDeferred, OnPanic: fs.crash, StackDepth: 1, Capabilities: capabilities, Log: fs.log,
	}
	// The overlay checks its callers by the attributes that it has. The kernel would ask for those of a
	// directory again after each change in it.
	if fs.upper() {
		o.Unchecked, o.Above = true, AboveGID
	}
	if fs.overlay {
		o.StackDepth = 2
	}
	if !fs.cfg.NoPassthrough {
		o.Capabilities |= fuse.CAP_PASSTHROUGH
	}
	if !fs.cfg.NoRing {
		o.Capabilities |= fuse.CAP_OVER_IO_URING
	}
	return o
}

// Mount attaches the view to its mountpoint and serves it; it returns when the
// first requests have been answered.
func (fs *FS) Mount(ctx context.Context) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.server != nil {
		return ErrMounted
	}
	if err := fs.hidden(); err != nil {
		return err
	}
	srv, err := conn.Mount(fs, fs.options())
	if err != nil {
		return fmt.Errorf("fusefs: %w", err)
	}
	fs.server, fs.served = srv, srv.Done()
	fs.passthrough.Mounted(srv, srv.Granted()&fuse.CAP_PASSTHROUGH != 0)
	fs.control, err = control(fs.cfg.Mountpoint)
	go func() {
		if err := srv.Serve(); err != nil {
			fs.log.Error("view is not served", slog.String("op", "serve"), slog.Any("err", err))
		}
	}()
	if err == nil {
		// This process must not keep the connection while it waits for an answer: see package apart.
		err = apart.Do(ctx, srv.Probe)
	}
	if err != nil {
		err = fmt.Errorf("fusefs: mount %s: %w", fs.cfg.Mountpoint, err)
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return errors.Join(err, fs.unmount(undo))
	}
	return nil
}

// control opens the connection of what is mounted at path, which makes no request.
func control(path string) (*fusectl.Connection, error) {
	id, err := device(path)
	if err != nil {
		return nil, err
	}
	return fusectl.Open(id)
}

// device returns the minor number of the file system at path, as the kernel knows it: it asks no server.
func device(path string) (uint32, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, 0, &st); err != nil {
		return 0, &os.PathError{Op: "statx", Path: path, Err: err}
	}
	return st.Dev_minor, nil
}
