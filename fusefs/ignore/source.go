package ignore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"polis/fusefs/policy/glob"
)

// stamp says which state of a file was read.
type stamp struct {
	dev, ino     uint64
	size         int64
	mtime, ctime unix.Timespec
}

// source is one file as it was read; only checked changes.
type source struct {
	stamp    stamp
	patterns []*glob.Pattern
	tracked  *tracked
	absent   bool  // there is no such file
	bad      bool  // there is one, and it cannot be used
	err      error // why
	checked  atomic.Int64
}

// fresh says whether the file need not be looked at again.
func (f *source) fresh(now, recheck time.Duration) bool {
	return f != nil && recheck > 0 && now-time.Duration(f.checked.Load()) < recheck
}

// load reads a file unless it is still the one that old came from.
func (m *Matcher) load(old *source, name string, open func() (int, error), limit int64, parse func(*source, []byte)) *source {
	f := &source{}
	// The time before looking: what changes while reading is looked at again.
	f.checked.Store(int64(m.now()))
	fd, err := open()
	if err != nil {
		f.err = err
		switch {
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
			f.absent = true // as git has it: a .gitignore that is a link is none
		default:
			f.bad = true
		}
		return f
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		f.err, f.bad = err, true
		return f
	}
	f.stamp = stamp{st.Dev, st.Ino, st.Size, st.Mtim, st.Ctim}
	if old != nil && !old.absent && !old.bad && old.stamp == f.stamp && !recent(&st) {
		old.checked.Store(f.checked.Load())
		return old
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		f.absent = true
		return f
	case st.Size > limit:
		f.err, f.bad = fmt.Errorf("%s: %d bytes, at most %d", name, st.Size, limit), true
		return f
	}
	b := make([]byte, st.Size)
	n, err := io.ReadFull(file, b)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		f.err, f.bad = err, true
		return f
	}
	parse(f, b[:n])
	return f
}

// recent says that the file changed so lately that its times could stay the
// same with the next change (racily clean, as git calls it).
func recent(st *unix.Stat_t) bool {
	return time.Since(time.Unix(st.Ctim.Unix())) < 50*time.Millisecond
}
