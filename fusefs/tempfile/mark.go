package tempfile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Attribute is the extended attribute with the mark. Views hide "user.polis.*" and let nobody set it.
const Attribute = "user.polis.temp"

// maxMark bounds a mark: a hash, a slash and a name.
const maxMark = 2*sha256.Size + 1 + unix.NAME_MAX

// Mark returns the mark of a temporary file. path is that in the view. of is the name of the file that was renamed to
// it, in the same directory; "" if there was none.
func Mark(path, of string) []byte {
	sum := sha256.Sum256([]byte(path))
	return []byte(hex.EncodeToString(sum[:]) + "/" + of)
}

// ParseMark returns of. ok is false if the mark is none, or that of another path.
func ParseMark(path string, mark []byte) (of string, ok bool) {
	if len(mark) > maxMark {
		return "", false
	}
	of, ok = strings.CutPrefix(string(mark), string(Mark(path, "")))
	if !ok || of == "." || of == ".." || strings.ContainsAny(of, "/\x00") {
		return "", false
	}
	return of, true
}

// File is a temporary file.
type File struct {
	// FD is a descriptor of it (O_PATH). Close closes it.
	FD   int
	Path string
	// Of is the name of the file that was renamed to it; "" if there was none.
	Of string

	// Links is the number of its names.
	Links    uint64
	dev, ino uint64
}

// Close closes the descriptor.
func (f *File) Close() {
	if f.FD >= 0 {
		_ = unix.Close(f.FD) // it was opened with O_PATH
		f.FD = -1
	}
}

// Same reports whether two files are one object with the same mark.
func (f *File) Same(g *File) bool { return f.dev == g.dev && f.ino == g.ino && f.Of == g.Of }

// Set marks the object behind a descriptor (O_PATH). It must be a regular file.
func Set(fd int, path, of string) error { return set(fd, path, of, false) }

// SetNew marks a file that the agent has just made, which has one name at most.
func SetNew(fd int, path string) error { return set(fd, path, "", true) }

func set(fd int, path, of string, fresh bool) error {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	switch {
	case err != nil:
	case st.Mode&unix.S_IFMT != unix.S_IFREG, fresh && st.Nlink > 1:
		err = unix.EINVAL
	default:
		err = unix.Setxattr(procPath(fd), Attribute, Mark(path, of), 0)
	}
	if err != nil {
		return fmt.Errorf("mark a temporary file: %w", err)
	}
	return nil
}

// Marked reads the mark of the file behind a descriptor (O_PATH or better). ok is false if the file has none of this path.
func Marked(fd int, path string) (of string, ok bool) {
	buf := make([]byte, maxMark+1)
	n, err := unix.Getxattr(procPath(fd), Attribute, buf)
	if err != nil {
		return "", false
	}
	return ParseMark(path, buf[:n])
}

// ClearNamed is Clear for a file that has a name yet. The mark of one that has none stays: programs that have it open use
// it as a temporary file.
func ClearNamed(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("remove the mark of a temporary file: %w", err)
	}
	if st.Nlink == 0 {
		return nil
	}
	return Clear(fd)
}

// Clear removes the mark. A file without one is no error.
func Clear(fd int) error {
	if err := unix.Removexattr(procPath(fd), Attribute); err != nil && !errors.Is(err, unix.ENODATA) {
		return fmt.Errorf("remove the mark of a temporary file: %w", err)
	}
	return nil
}

func procPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// openAt opens a path beneath a directory.
func openAt(dir int, path string, flags int) (int, error) {
	return unix.Openat2(dir, path, &unix.OpenHow{
		Flags:   uint64(flags | unix.O_NOFOLLOW | unix.O_CLOEXEC),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
}

// look opens the file at a path if it is a temporary one.
func look(root int, path string) *File {
	fd, err := openAt(root, path, unix.O_PATH)
	if err != nil {
		return nil
	}
	f := &File{FD: fd, Path: path}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
		f.dev, f.ino, f.Links = st.Dev, st.Ino, uint64(st.Nlink) //nolint:unconvert // it has 32 bits on arm64
		var ok bool
		if f.Of, ok = Marked(fd, path); ok {
			return f
		}
	}
	f.Close()
	return nil
}
