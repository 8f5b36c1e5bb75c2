package tempfile

import (
	"bytes"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

const (
	// sweepBytes bounds what Sweep reads of files.
	sweepBytes = 64 << 20
	// sweepNames bounds the names that it reads of a directory.
	sweepNames = 4096
	// sweepTries bounds the files that it compares others with, of all directories: the agent stops meanwhile.
	sweepTries = 100_000
)

// Sweeper removes the temporary files that are left of programs that have ended.
type Sweeper struct {
	Table *Table
	// Writable reports whether the agent may write a file: one of those that a temporary file stands for.
	Writable func(path string) bool
	// Covers reports whether something would show at a path when its file is removed; nil: nothing does.
	Covers func(path string) bool

	left  int64 // bytes
	tries int
}

// Sweep removes what contains nothing that is not elsewhere: an empty file, and a copy of a file that the agent may
// write. It returns the paths of the others, which may be the only copies of work. Nobody else may change the
// directory meanwhile.
func (s *Sweeper) Sweep() (kept []string, removed int) {
	s.left, s.tries = sweepBytes, sweepTries
	for _, p := range s.Table.Paths() {
		f := look(s.Table.root, p)
		if f == nil {
			continue
		}
		if (s.Covers == nil || !s.Covers(p)) && s.leftover(f) && s.remove(f) {
			removed++
		} else {
			kept = append(kept, p)
		}
		f.Close()
	}
	return kept, removed
}

// leftover reports whether a file can go.
func (s *Sweeper) leftover(f *File) bool {
	var st unix.Stat_t
	if unix.Fstat(f.FD, &st) != nil {
		return false
	}
	dir := path.Dir(f.Path)
	if f.Of != "" {
		return s.copyOf(f, st, path.Join(dir, f.Of))
	}
	if st.Size == 0 {
		return true
	}
	for _, name := range s.names(dir) {
		if s.copyOf(f, st, path.Join(dir, name)) {
			return true
		}
	}
	return false
}

// names returns the first names of a directory.
func (s *Sweeper) names(dir string) []string {
	fd, err := openAt(s.Table.root, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil
	}
	d := os.NewFile(uintptr(fd), dir)
	defer d.Close()
	names, err := d.Readdirnames(sweepNames)
	if err != nil {
		return nil
	}
	return names
}

// copyOf reports whether another file, which the agent may write, has the content of f.
func (s *Sweeper) copyOf(f *File, st unix.Stat_t, other string) bool {
	if s.tries--; s.tries < 0 || other == f.Path || !s.Writable(other) {
		return false
	}
	b, bst := s.open(other)
	if b == nil {
		return false
	}
	defer b.Close()
	switch {
	case st.Size == 0 && f.Of != "":
		return true
	case bst.Size != st.Size:
		return false
	case bst.Ino == st.Ino && bst.Dev == st.Dev:
		return true // two names of one file
	case st.Size > s.left:
		return false
	}
	a, ast := s.open(f.Path)
	if a == nil {
		return false
	}
	defer a.Close()
	s.left -= st.Size
	return ast.Ino == st.Ino && ast.Dev == st.Dev && same(a, b, st.Size)
}

// open opens a regular file for reading.
func (s *Sweeper) open(p string) (*os.File, unix.Stat_t) {
	var st unix.Stat_t
	fd, err := openAt(s.Table.root, p, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, st
	}
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		return nil, st
	}
	return os.NewFile(uintptr(fd), p), st
}

// same reports whether two files have the same content of a size.
func same(a, b io.Reader, size int64) bool {
	const chunk = 64 << 10
	x, y := make([]byte, chunk), make([]byte, chunk)
	for size > 0 {
		n := min(size, chunk)
		if _, err := io.ReadFull(a, x[:n]); err != nil {
			return false
		}
		if _, err := io.ReadFull(b, y[:n]); err != nil {
			return false
		}
		if !bytes.Equal(x[:n], y[:n]) {
			return false
		}
		size -= n
	}
	return true
}

// remove removes the name of a file, if it is still that of the file.
func (s *Sweeper) remove(f *File) bool {
	dir, err := openAt(s.Table.root, path.Dir(f.Path), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	name := path.Base(f.Path)
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil || st.Ino != f.ino || st.Dev != f.dev {
		return false
	}
	if unix.Unlinkat(dir, name, 0) != nil {
		return false
	}
	_ = Clear(f.FD) // another name of the file has no use for it
	s.Table.End(f.Path)
	return true
}
