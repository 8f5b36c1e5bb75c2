package fusefs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

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
	o.Unchecked = fs.upper()
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
// first request has been answered.
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
	go func() {
		if err := srv.Serve(); err != nil {
			fs.log.Error("view is not served", slog.String("op", "serve"), slog.Any("err", err))
		}
	}()
	ready := make(chan error, 1)
	fs.bg.Go(func() {
		err := srv.Probe()
		var st unix.Stat_t
		if err == nil {
			err = unix.Stat(fs.cfg.Mountpoint, &st)
		}
		fs.connID.Store(unix.Minor(st.Dev))
		ready <- err
	})
	select {
	case err = <-ready:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		err = fmt.Errorf("fusefs: mount %s: %w", fs.cfg.Mountpoint, err)
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return errors.Join(err, fs.unmount(undo))
	}
	return nil
}

// Wait blocks until the view is unmounted, by any process.
func (fs *FS) Wait() {
	fs.mu.Lock()
	served := fs.served
	fs.mu.Unlock()
	if served != nil {
		<-served
	}
}

// Serve blocks until the view is unmounted; when ctx ends it unmounts.
func (fs *FS) Serve(ctx context.Context) error {
	fs.mu.Lock()
	served := fs.served
	fs.mu.Unlock()
	if served == nil {
		return nil
	}
	select {
	case <-served:
		return nil
	case <-ctx.Done():
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return fs.Unmount(undo)
}

// Unmount detaches the view and waits until the server has ended. A busy view
// is tried again for a moment, then detached lazily, then its connection is
// aborted, so that it ends within ctx even if programs still hold files.
func (fs *FS) Unmount(ctx context.Context) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.server == nil {
		return nil
	}
	return fs.unmount(ctx)
}

// crash ends the process after a panic in a handler, which may hold the name lock
// or have a caller's identity. The connection goes first: a thread of this process
// that waits for an answer of the view could not end, and the process not either.
func (fs *FS) crash(v any) {
	if err := fs.abort(); err != nil {
		fs.log.Error("connection is not ended", slog.String("op", "panic"), slog.Any("err", err))
	}
	panic(v)
}

func (fs *FS) unmount(ctx context.Context) error {
	err := fs.detach(ctx)
	if err == nil && !fs.ended(ctx, time.Second) {
		fs.log.Warn("view is still in use after unmounting; ending its connection", slog.String("op", "unmount"), slog.String("path", fs.cfg.Mountpoint))
		err = fs.abort()
		if fs.dead.CompareAndSwap(false, true) {
			close(fs.dying)
		}
		if err == nil && !fs.ended(ctx, 5*time.Second) {
			err = fmt.Errorf("fusefs: unmount %s: %w", fs.cfg.Mountpoint, context.DeadlineExceeded)
		}
	}
	if err != nil {
		return err
	}
	fs.bg.Wait()
	fs.watchers.Wait()
	fs.Close()
	fs.server = nil
	return nil
}

// detach takes the mount out of the name space.
func (fs *FS) detach(ctx context.Context) error {
	var st unix.Stat_t
	if err := unix.Stat(fs.cfg.Mountpoint, &st); err == nil && fs.connID.Load() != 0 && unix.Minor(st.Dev) != fs.connID.Load() {
		return nil // another unmount was faster; what is there now is not ours
	}
	for delay := time.Millisecond; delay < 100*time.Millisecond; delay *= 2 {
		err := unix.Unmount(fs.cfg.Mountpoint, unix.UMOUNT_NOFOLLOW)
		switch {
		case err == nil, errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
			return nil // EINVAL: not a mount point, another unmount was faster
		case !errors.Is(err, unix.EBUSY):
			return fmt.Errorf("fusefs: unmount %s: %w", fs.cfg.Mountpoint, err)
		}
		select {
		case <-ctx.Done():
			delay = time.Hour
		case <-time.After(delay):
		}
	}
	err := unix.Unmount(fs.cfg.Mountpoint, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("fusefs: detach %s: %w", fs.cfg.Mountpoint, err)
	}
	return nil
}

func (fs *FS) ended(ctx context.Context, within time.Duration) bool {
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case <-fs.served:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	return false
}

// abort ends the connection: every caller gets ENOTCONN, the server ENODEV.
// The control file system is mounted nowhere for that, only opened.
func (fs *FS) abort() error {
	id := fs.connID.Load()
	if id == 0 {
		return fmt.Errorf("fusefs: abort: connection unknown: %w", syscall.ENOTCONN)
	}
	if err := fusectl.Abort(id); err != nil {
		return fmt.Errorf("fusefs: %w", err)
	}
	return nil
}

// Requests are the requests the kernel has made of this view, by the protocol's
// names.
func (fs *FS) Requests() map[string]uint64 {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.server == nil {
		return nil
	}
	return fs.server.Counts()
}
