package fusefs

import (
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// An overlay syncs every copy that it makes of a file, before the copy gets its name. The caller
// would wait for the disk at its first change of each file. The original is on the disk, so the
// view answers at once and begins to write the copies soon afterwards, without waiting for the disk.

const (
	// writeAfter is how long a copy waits, for others that follow.
	writeAfter = 200 * time.Millisecond
	// maxLater bounds the copies that wait; each has a descriptor. Beyond it the caller begins the
	// write itself.
	maxLater = 64
)

// writeLater are the copies of which the write is to begin.
type writeLater struct {
	mu  sync.Mutex
	fds []int // duplicates
	on  bool  // a goroutine waits to write them
}

// add takes a duplicate of fd. first: there was none that waits, so a goroutine must be started for it.
func (w *writeLater) add(fd int) (first, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.fds) >= maxLater {
		return false, false
	}
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return false, false
	}
	w.fds = append(w.fds, dup)
	first, w.on = !w.on, true
	return first, true
}

// take returns what waits, which is then the caller's. After an empty answer the next add is a first one.
func (w *writeLater) take() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	fds := w.fds
	w.fds, w.on = nil, len(fds) > 0
	return fds
}

// writeLater begins to write a file to the disk, soon.
func (fs *FS) writeLater(fd int) {
	first, ok := fs.later.add(fd)
	switch {
	case !ok:
		fs.beginWrite(fd)
	case first:
		fs.watchers.Go(fs.writeAll)
	}
}

// writeAll begins to write what waits, until there is nothing. It ends with the connection.
func (fs *FS) writeAll() {
	for {
		select {
		case <-time.After(writeAfter):
		case <-fs.served:
		}
		fds := fs.later.take()
		if len(fds) == 0 {
			return
		}
		for _, fd := range fds {
			fs.beginWrite(fd)
			unix.Close(fd)
		}
	}
}

// beginWrite makes the kernel write a file's dirty pages. It does not wait for the disk.
func (fs *FS) beginWrite(fd int) {
	if err := unix.SyncFileRange(fd, 0, 0, unix.SYNC_FILE_RANGE_WRITE); err != nil {
		// The kernel writes it later by itself, and the original exists.
		fs.log.Debug("copy is written later, by the kernel itself", slog.String("op", "fsync"), slog.Any("err", err))
	}
}
