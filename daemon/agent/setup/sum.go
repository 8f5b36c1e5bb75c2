package setup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	maxDepth = 256     // of directories
	maxFiles = 2 << 20 // and other names
)

// sums reads a tree of files in order, by descriptors and without following links.
type sums struct {
	ctx   context.Context
	clean *cleaning // nil: nothing is changed

	h            hash.Hash
	buf          []byte
	linked       map[uint64]bool // inodes with several names
	bytes, files int64
	removed      int
}

// cleaning removes what must not be in a layer: devices, pipes, sockets, hard links and the attributes
// of an overlay.
type cleaning struct {
	uid, gid int
	room     int64 // for copies of files with several names, in bytes
}

// sum returns the checksum, the size and the number of files of the directory at path.
func sum(ctx context.Context, path string, clean *cleaning) (text string, s *sums, err error) {
	s = &sums{ctx: ctx, clean: clean, h: sha256.New(), buf: make([]byte, 256<<10), linked: map[uint64]bool{}}
	top, err := os.OpenFile(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, err
	}
	defer top.Close()
	if err := s.dir(top, "", 0); err != nil {
		return "", nil, err
	}
	return hex.EncodeToString(s.h.Sum(nil)), s, nil
}

func (s *sums) dir(d *os.File, path string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("its directories are more than %d deep", maxDepth)
	}
	if err := s.ctx.Err(); err != nil {
		return context.Cause(s.ctx)
	}
	if s.clean != nil {
		if err := dropOverlayAttributes(int(d.Fd())); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	names, err := d.Readdirnames(-1)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if err := s.entry(d, name, path+"/"+name, depth); err != nil {
			return err
		}
	}
	add(s.h, "end")
	return nil
}

func (s *sums) entry(d *os.File, name, path string, depth int) error {
	var st unix.Stat_t
	if err := unix.Fstatat(int(d.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if s.files++; s.files > maxFiles {
		return errTooManyFiles
	}
	kind := st.Mode & unix.S_IFMT
	if s.clean != nil && kind != unix.S_IFDIR && kind != unix.S_IFREG && kind != unix.S_IFLNK {
		s.removed, s.files = s.removed+1, s.files-1
		return os.NewSyscallError("unlinkat", unix.Unlinkat(int(d.Fd()), name, 0))
	}
	if s.clean != nil && (int(st.Uid) != s.clean.uid || int(st.Gid) != s.clean.gid) && os.Geteuid() == 0 {
		if err := unix.Fchownat(int(d.Fd()), name, s.clean.uid, s.clean.gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return &os.PathError{Op: "chown", Path: path, Err: err}
		}
	}
	add(s.h, name, fmt.Sprintf("%o %d", st.Mode&^(unix.S_ISUID|unix.S_ISGID), kind))
	switch kind {
	case unix.S_IFDIR:
		s.bytes += st.Blocks * 512
		sub, err := openIn(d, name, path, unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		defer sub.Close()
		return s.dir(sub, path, depth+1)
	case unix.S_IFREG:
		return s.file(d, name, path, &st)
	case unix.S_IFLNK:
		to := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(int(d.Fd()), name, to)
		if err != nil {
			return &os.PathError{Op: "readlink", Path: path, Err: err}
		}
		add(s.h, string(to[:n]))
	}
	return nil
}

func (s *sums) file(d *os.File, name, path string, st *unix.Stat_t) error {
	if s.clean != nil && st.Nlink > 1 {
		if err := s.clean.unlink(s.ctx, d, name, path, st); err != nil {
			return err
		}
	}
	if st.Nlink == 1 || !s.linked[st.Ino] {
		s.bytes += st.Blocks * 512
	}
	if st.Nlink > 1 {
		s.linked[st.Ino] = true
	}
	f, err := openIn(d, name, path, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if s.clean != nil && st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
		if err := unix.Fchmod(int(f.Fd()), st.Mode&0o1777); err != nil {
			return &os.PathError{Op: "chmod", Path: path, Err: err}
		}
	}
	add(s.h, fmt.Sprint(st.Size))
	if _, err := io.CopyBuffer(onlyWriter{s.h}, f, s.buf); err != nil {
		return &os.PathError{Op: "read", Path: path, Err: err}
	}
	return nil
}

// onlyWriter hides the other methods of a writer, so that the buffer is used.
type onlyWriter struct{ io.Writer }

// openIn opens a name of a directory that is not a link.
func openIn(d *os.File, name, path string, flags int) (*os.File, error) {
	fd, err := unix.Openat(int(d.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// overlayPrefix begins the attributes that overlayfs reads and writes.
const overlayPrefix = "trusted.overlay."

// dropOverlayAttributes removes the attributes that overlayfs stored in an upper directory.
func dropOverlayAttributes(fd int) error {
	list := make([]byte, 64<<10)
	n, err := unix.Flistxattr(fd, list)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	if err != nil {
		return os.NewSyscallError("flistxattr", err)
	}
	for _, name := range strings.Split(string(list[:n]), "\x00") {
		if strings.HasPrefix(name, overlayPrefix) {
			if err := unix.Fremovexattr(fd, name); err != nil && !errors.Is(err, unix.ENODATA) {
				return os.NewSyscallError("fremovexattr", err)
			}
		}
	}
	return nil
}
