package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"polis/daemon/layout"
	"polis/daemon/private"
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
	l.f, l.size = f, fi.Size()
	return nil
}

// Write appends p, rotating first when the file has reached half the limit.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return 0, os.ErrClosed
	}
	if l.size >= l.limit/2 {
		if err := os.Rename(l.path, l.path+".1"); err != nil {
			return 0, fmt.Errorf("rotate output log: %w", err)
		}
		old := l.f
		l.base += l.size
		if err := l.open(); err != nil {
			return 0, err
		}
		l.noteBase(l.base)
		if err := old.Close(); err != nil {
			return 0, fmt.Errorf("rotate output log: %w", err)
		}
	}
	n, err := l.f.Write(p)
	l.size += int64(n)
	return n, err
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
