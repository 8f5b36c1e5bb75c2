package fusefs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

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

// busyTime is how long a view may be in use after it was to be unmounted.
const busyTime = time.Second

// Unmount detaches the view and waits until the server has ended. A busy view
// is tried again for a moment, then its connection is aborted, then it is detached
// lazily, so that it ends within ctx even if programs still hold files.
func (fs *FS) Unmount(ctx context.Context) (err error) {
	fs.unmounting.Store(true) // an echo has the mount open
	defer func() { fs.unmounting.Store(err == nil) }()
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
	if err == nil && !fs.ended(ctx, time.Second) { // it is mounted elsewhere, too, or a request is with its handler
		if err = fs.end(); err == nil && !fs.ended(ctx, 5*time.Second) {
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
	if fs.control != nil {
		err = fs.control.Close()
	}
	return err
}

// end aborts the connection of a view that is still in use.
func (fs *FS) end() error {
	fs.log.Warn("view is still in use; ending its connection", slog.String("op", "unmount"), slog.String("path", fs.cfg.Mountpoint))
	err := fs.abort()
	if fs.dead.CompareAndSwap(false, true) {
		close(fs.dying)
	}
	return err
}

// detach takes the mount out of the name space. The connection of a busy one is aborted before: if this process
// was killed in between, nobody else would find the connection by its mount.
func (fs *FS) detach(ctx context.Context) error {
	if id, err := device(fs.cfg.Mountpoint); err == nil && fs.control != nil && id != fs.control.ID() {
		return nil // another unmount was faster; what is there now is not ours
	}
	for end, delay := time.Now().Add(busyTime), time.Millisecond; time.Now().Before(end); delay = min(2*delay, 50*time.Millisecond) {
		err := unix.Unmount(fs.cfg.Mountpoint, unix.UMOUNT_NOFOLLOW)
		switch {
		case err == nil, errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
			return nil // EINVAL: not a mount point, another unmount was faster
		case !errors.Is(err, unix.EBUSY):
			return fmt.Errorf("fusefs: unmount %s: %w", fs.cfg.Mountpoint, err)
		}
		select {
		case <-ctx.Done():
			end = time.Time{}
		case <-time.After(delay):
		}
	}
	aborted := fs.end()
	err := unix.Unmount(fs.cfg.Mountpoint, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) {
		return errors.Join(aborted, fmt.Errorf("fusefs: detach %s: %w", fs.cfg.Mountpoint, err))
	}
	return aborted
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

// abort ends the connection: every caller gets ENOTCONN, the server ENODEV. The connection was opened when it was
// mounted, so that it is no other one.
func (fs *FS) abort() error {
	if fs.control == nil {
		return fmt.Errorf("fusefs: abort: connection unknown: %w", syscall.ENOTCONN)
	}
	if err := fs.control.Abort(); err != nil {
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
