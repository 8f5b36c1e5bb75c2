package ignore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"polis/fusefs/pathset"
	"polis/fusefs/policy/glob"
)

// stamp identifies the state of a file that was read.
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
	set      *pathset.Set
	absent   bool  // there is no such file
	bad      bool  // there is one, and it cannot be used
	content  bool  // and that is because of what is in it
	racy     bool  // it may have changed since with the same times
	err      error // why
	checked  atomic.Int64
}

// fresh reports whether the file need not be read again.
func (f *source) fresh(now, recheck time.Duration) bool {
	return f != nil && recheck > 0 && now-time.Duration(f.checked.Load()) < recheck
}

// load reads a file unless it is still the one that old came from.
func (m *Matcher) load(old *source, name string, open func() (int, error), limit int64, parse func(*source, []byte)) *source {
	f := &source{}
	// The time before looking: what changes while reading is read again.
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
	f.racy = recent(&st)
	if old != nil && !old.absent && (!old.bad || old.content) && old.stamp == f.stamp && !f.racy {
		old.checked.Store(f.checked.Load())
		return old
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		f.absent = true
		return f
	case st.Size > limit:
		f.err, f.bad, f.content = fmt.Errorf("%w: it has %d bytes, at most %d", ErrTooLarge, st.Size, limit), true, true
		return f
	}
	if !f.racy && m.sameFile(f) {
		return f
	}
	b := make([]byte, st.Size)
	n, err := io.ReadFull(file, b)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		f.err, f.bad = err, true
		return f
	}
	parse(f, b[:n])
	f.content = f.bad
	return f
}

// sameFile takes the patterns from another name of the same file: an agent can
// link one to every directory it has.
func (m *Matcher) sameFile(f *source) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	other := m.files[f.stamp]
	if other == nil {
		return false
	}
	f.patterns, f.bad, f.content, f.err = other.patterns, other.bad, other.content, other.err
	return true
}

// weight is about how much memory a file's patterns take, in bytes.
func (f *source) weight() int64 {
	w := int64(len(f.patterns))*patternSize + sourceSize
	if len(f.patterns) > 0 {
		w += f.stamp.size * textSize // one pattern can have a part for every second byte
	}
	return w
}

// recent reports whether the file changed so lately that its times could stay the
// same with the next change (racily clean, as git calls it).
func recent(st *unix.Stat_t) bool {
	return time.Since(time.Unix(st.Ctim.Unix())) < 50*time.Millisecond
}
