package server

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"polis/daemon/store/layout"
)

func closeFile(f *os.File) {
	if f != nil {
		_ = f.Close() //nolint:errcheck // opened for reading
	}
}

// part is one file of a log.
type part struct {
	f     *os.File
	base  int64 // bytes of the log before this file; -1 if unknown
	size  int64
	begin int64 // what to send of it first
}

// outputLog is the one or two files of a log, the older first.
type outputLog []part

// looks is how often a log is checked whose two names are one file.
const looks = 10

// openLog opens what there is; between two renames of a rotation it looks again.
// Names that stay one file are one.
func openLog(path string) (outputLog, error) {
	for look := 1; ; look++ {
		var l outputLog
		var fis []os.FileInfo
		for _, p := range []string{path, path + ".1"} {
			f, err := os.Open(p)
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				l.close()
				return nil, err
			}
			l = append(outputLog{{f: f, base: logBase(f)}}, l...)
			fi, err := f.Stat()
			if err != nil {
				l.close()
				return nil, err
			}
			l[0].size = fi.Size()
			fis = append(fis, fi)
		}
		if len(l) == 2 && os.SameFile(fis[0], fis[1]) {
			if look < looks {
				l.close()
				continue
			}
			closeFile(l[0].f)
			l = l[1:]
		}
		switch {
		case len(l) == 1 && l[0].base < 0:
			l[0].base = 0 // it has never been rotated
		case len(l) == 2 && l[1].base < 0 && l[0].base >= 0:
			l[1].base = l[0].base + l[0].size // it is being rotated now
		case len(l) == 2 && l[0].base < 0 && l[1].base >= 0:
			l[0].base = l[1].base - l[0].size
		}
		return l, nil
	}
}

// logBase is what the shim wrote down when it began the file.
func logBase(f *os.File) int64 {
	buf := make([]byte, 32)
	n, err := unix.Fgetxattr(int(f.Fd()), layout.LogBase, buf)
	if err != nil {
		return -1
	}
	base, err := strconv.ParseInt(string(buf[:n]), 10, 64)
	if err != nil || base < 0 {
		return -1
	}
	return base
}

func (l outputLog) close() {
	for _, p := range l {
		closeFile(p.f)
	}
}

// last begins at the last lines.
func (l outputLog) last(lines int) error {
	for i := len(l) - 1; i >= 0; i-- {
		begin, n, err := lastLines(l[i].f, l[i].size, lines)
		if err != nil {
			return err
		}
		l[i].begin = begin
		lines -= n
	}
	return nil
}

// skipTo begins at a byte of the log, counted from its very beginning; false:
// what comes after it is not all there, and it begins with what is.
func (l outputLog) skipTo(at int64) bool {
	if len(l) == 0 {
		return at == 0
	}
	end := l[len(l)-1]
	if l[0].base < 0 || end.base < 0 || at < l[0].base || at > end.base+end.size {
		return false
	}
	for i, p := range l {
		l[i].begin = min(max(at-p.base, 0), p.size)
	}
	return true
}

// position is the number of the first byte to be sent, if it is known.
func (l outputLog) position() (at int64, known bool) {
	for i, p := range l {
		if p.begin < p.size || i == len(l)-1 {
			return p.base + p.begin, p.base >= 0
		}
	}
	return 0, true
}

// send writes what there is and returns the newest file, at its end; nil if
// there is none yet.
func (l outputLog) send(w io.Writer) (*os.File, error) {
	var last *os.File
	for i := range l {
		if _, err := l[i].f.Seek(l[i].begin, io.SeekStart); err != nil {
			return nil, err
		}
		if i == len(l)-1 && filepath.Ext(l[i].f.Name()) != ".1" {
			last, l[i].f = l[i].f, nil // the caller's to close
		}
		f := last
		if f == nil {
			f = l[i].f
		}
		if _, err := io.Copy(w, f); err != nil {
			return last, err
		}
	}
	return last, nil
}

// lastLines returns the offset at which the last n lines, or fewer, of the first size bytes of f begin,
// and how many they are.
func lastLines(f *os.File, size int64, n int) (begin int64, count int, err error) {
	if n <= 0 || size == 0 {
		return size, 0, nil
	}
	for pos := size; pos > 0; {
		at := max(0, pos-tailBlock)
		block := make([]byte, pos-at)
		if _, err := f.ReadAt(block, at); err != nil && !errors.Is(err, io.EOF) {
			return 0, 0, err
		}
		pos = at
		for i := len(block) - 1; i >= 0; i-- {
			// The newline that ends the last line does not begin another.
			if block[i] == '\n' && pos+int64(i) != size-1 {
				if count++; count == n {
					return pos + int64(i) + 1, n, nil
				}
			}
		}
	}
	return 0, count + 1, nil
}

// more copies what came since and follows a rotation.
func more(w io.Writer, f *os.File, path string) (*os.File, error) {
	if f != nil {
		if _, err := io.Copy(w, f); err != nil {
			return f, err
		}
		a, err1 := f.Stat()
		b, err2 := os.Stat(path)
		if err1 != nil || err2 != nil || os.SameFile(a, b) {
			return f, nil //nolint:nilerr // between two renames of a rotation: look again
		}
		if _, err := io.Copy(w, f); err != nil {
			return f, err
		}
		closeFile(f)
	}
	n, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(w, n)
	return n, err
}
