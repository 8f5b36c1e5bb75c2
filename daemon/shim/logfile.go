package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"polis/daemon/host/private"
	"polis/daemon/store/layout"
)

// OutputLog is the name of an agent's output log; OutputLog+".1" is the part
// before the last rotation.
const OutputLog = "output.log"

// logFile is the agent's output on disk, in at most two files of half the
// limit each.
type logFile struct {
	mu    sync.Mutex
	path  string
	limit int64
	f     *os.File
	is    os.FileInfo // of f, when it was opened
	size  int64
	base  int64 // bytes of the log before this file
}

func openLog(dir, name string, limit int64) (*logFile, error) {
	if err := private.Dir(dir); err != nil {
		return nil, fmt.Errorf("open output log: %w", err)
	}
	l := &logFile{path: filepath.Join(dir, name), limit: limit}
	if err := l.open(); err != nil {
		return nil, err
	}
	base, ok := readBase(l.path)
	if !ok {
		if old, err := os.Stat(l.path + ".1"); err == nil {
			base, _ = readBase(l.path + ".1")
			base += old.Size()
		}
		l.noteBase(base)
	}
	l.base = base
	return l, nil
}

// readBase reads the number that noteBase stored.
func readBase(path string) (int64, bool) {
	buf := make([]byte, 32)
	n, err := unix.Getxattr(path, layout.LogBase, buf)
	if err != nil {
		return 0, false
	}
	base, err := strconv.ParseInt(string(buf[:n]), 10, 64)
	return base, err == nil && base >= 0
}

// noteBase stores how much of the log came before this file. Without extended attributes the
// number is unknown, and a reader that was disconnected cannot continue at its position.
func (l *logFile) noteBase(base int64) {
	_ = unix.Fsetxattr(int(l.f.Fd()), layout.LogBase, strconv.AppendInt(nil, base, 10), 0) //nolint:errcheck // see above
}

func (l *logFile) open() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open output log: %w", err)
	}
	fi, err := f.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("open output log: %w", err), f.Close())
	}
	l.f, l.is, l.size = f, fi, fi.Size()
	return nil
}

// Write appends p, rotating first when the file has reached half the limit.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return 0, os.ErrClosed
	}
	l.follow()
	if l.size >= l.limit/2 {
		if err := os.Rename(l.path, l.path+".1"); err != nil {
			return 0, fmt.Errorf("rotate output log: %w", err)
		}
		if err := l.begin(); err != nil {
			return 0, err
		}
	}
	n, err := l.f.Write(p)
	l.size += int64(n)
	return n, err
}

// follow continues in a new file if another program has moved or removed the log, as logrotate(8) does, and at the
// place of its end if it was cut (copytruncate). The directory is root's. If there can be no new file, it stays with the
// old one: a command must not lose its output for that.
func (l *logFile) follow() {
	fi, err := os.Lstat(l.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if private.Dir(filepath.Dir(l.path)) == nil {
			_ = l.begin() //nolint:errcheck // see above
		}
	case err != nil:
	case !os.SameFile(fi, l.is):
		_ = l.begin() //nolint:errcheck // see above
	case fi.Size() < l.size:
		l.base += l.size - fi.Size()
		l.size = fi.Size()
		l.noteBase(l.base)
	}
}

// begin continues in the file that the path leads to now.
func (l *logFile) begin() error {
	old, before := l.f, l.base+l.size
	if err := l.open(); err != nil {
		return err
	}
	l.base = max(before-l.size, 0)
	l.noteBase(l.base)
	if err := old.Close(); err != nil {
		return fmt.Errorf("rotate output log: %w", err)
	}
	return nil
}

// position returns the number of bytes ever written to the log.
func (l *logFile) position() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.base + l.size
}

// Close closes the log. Later writes fail.
func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return nil
	}
	f := l.f
	l.f = nil
	return f.Close()
}
