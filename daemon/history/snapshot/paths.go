package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Paths reads only some paths of the tree, and all at and below those in trees, and returns them as
// the delta to any earlier state that differs from this one nowhere else. What Skip leaves out is in
// no delta, unless it is gone.
func (s *Scan) Paths(ctx context.Context, paths, trees []string) (*Delta, error) {
	d := &Delta{}
	below := set(trees)
	cleared := map[string]bool{}
	m, err := s.collect(ctx, func(ctx context.Context, work chan<- *Entry) error {
		for _, p := range slices.Concat(paths, trees) {
			parent := ""
			if i := strings.LastIndexByte(p, '/'); i >= 0 {
				parent = p[:i]
			}
			if p == "" || parent != "" && atOrBelow(below, parent) {
				continue // the root has no entry, or the path is read with a tree
			}
			if err := CheckPath(p); err != nil {
				return err
			}
			gone, err := s.path(ctx, p, below[p], cleared, work)
			if err != nil {
				return err
			}
			if gone {
				cleared[p] = true
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	d.Cleared = ordered(cleared)
	d.Entries = slices.CompactFunc(m.Entries, func(a, b Entry) bool { return a.Path == b.Path })
	return d, nil
}

// path reads one path, and reports whether it is gone.
func (s *Scan) path(ctx context.Context, p string, tree bool, cleared map[string]bool, work chan<- *Entry) (gone bool, err error) {
	top, name, at := p, p, "."
	if i := strings.IndexByte(p, '/'); i >= 0 {
		top = p[:i]
	}
	if s.excluded(top) {
		return false, nil
	}
	if i := strings.LastIndexByte(p, '/'); i >= 0 {
		at, name = p[:i], p[i+1:]
	}
	dir, err := openBelow(s.Root, at, unix.O_RDONLY|unix.O_DIRECTORY)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return true, nil
	case errors.Is(err, unix.EXDEV): // something is mounted above it
		return false, nil
	case err != nil:
		return false, err
	}
	defer dir.Close()
	var st unix.Stat_t
	err = unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT)
	if errors.Is(err, unix.ENOENT) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %q: %w", p, err)
	}
	for _, above := range parents(p) {
		if s.Skip != nil && s.Skip(above, true) {
			return false, nil
		}
	}
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if s.Skip != nil && s.Skip(p, isDir) {
		return false, nil
	}
	if tree || !isDir {
		cleared[p] = true // whatever was there before
	}
	return false, s.enter(ctx, dir, name, p, strings.Count(p, "/"), isDir && !tree, work)
}

// note keeps what the next delta needs to know of a file that was read: that it has other names, or
// can still be written.
func (s *Scan) note(f *os.File, e *Entry, st *unix.Stat_t) {
	linked, written := st.Nlink > 1, s.Written != nil && s.writable(f, e.Path)
	if !linked && !written {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if linked {
		s.Linked = append(s.Linked, e.Path)
	}
	if written {
		s.Writable = append(s.Writable, e.Path)
	}
}

// writable reports whether an open file or a mapping of any process can write to a file: then the
// kernel refuses a read lease (fcntl(2), F_SETLEASE). What cannot be found out counts as writable.
func (s *Scan) writable(f *os.File, path string) bool {
	if s.Written != s.Root {
		own, err := openBelow(s.Written, path, unix.O_RDONLY|unix.O_NONBLOCK)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENOTDIR) {
			return false // of a layer that nobody writes
		}
		if err != nil {
			return true
		}
		defer own.Close()
		f = own
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK); err != nil {
		return true
	}
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	return err != nil
}
