package fdtree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// cleanupTime bounds Cleanup.
	cleanupTime = time.Minute
	// batch is how many names are read at once.
	batch = 1024
	// maxDepth is how many directories are open at once. What lies deeper is moved up
	// first.
	maxDepth = 64
	// maxPasses bounds how often a directory is read again that other processes fill
	// while it is emptied.
	maxPasses = 100
	// maxErrors bounds what is reported of a tree that cannot be deleted.
	maxErrors = 8
)

// MountError is returned if something is mounted on Path, which was therefore kept with all
// that lies in it.
type MountError struct{ Path string }

func (e *MountError) Error() string {
	return "delete " + strconv.Quote(e.Path) + ": a file system is mounted there; it and its files were kept"
}

// Is makes a MountError an EXDEV, which is what openat2(2) says.
func (e *MountError) Is(target error) bool { return target == unix.EXDEV }

// RemoveAll deletes path and everything below it, except through mount points: they are a
// *MountError. The directories above path may be mount points and links. What is not
// there is no error. What can be deleted is, also after an error; the first errors are
// returned. It ends soon after ctx does, with its cause.
func RemoveAll(ctx context.Context, path string) error {
	path = filepath.Clean(path)
	dir, name := filepath.Split(path)
	if name == "" || name == "." || name == ".." {
		return fmt.Errorf("delete %q: not the path of a file or directory to delete", path)
	}
	if dir == "" {
		dir = "."
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete %q: %w", path, err)
	}
	defer unix.Close(fd)
	return RemoveAt(ctx, fd, name, path)
}

// RemoveAt is RemoveAll for one name in the directory that fd is; path is for messages.
func RemoveAt(ctx context.Context, fd int, name, path string) error {
	r := &remover{ctx: ctx, top: fd}
	r.remove(fd, name, path, 0)
	// What was too deep lies beside path now, under names of ours.
	for len(r.moved) > 0 {
		m := r.moved[0]
		r.moved = r.moved[1:]
		r.remove(fd, m.name, m.path, 0)
	}
	return errors.Join(r.errs...)
}

// Cleanup is RemoveAll with a bound of its own, a minute: for temporary directories,
// which go also after the caller's context has ended.
func Cleanup(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTime)
	defer cancel()
	return RemoveAll(ctx, path)
}

type moved struct{ name, path string }

type remover struct {
	ctx   context.Context
	top   int // where the tree lies
	moved []moved
	count int
	errs  []error
	ended bool
}

func (r *remover) fail(path string, err error) {
	if len(r.errs) < maxErrors {
		var m *MountError
		if !errors.As(err, &m) {
			err = fmt.Errorf("delete %q: %w", path, err)
		}
		r.errs = append(r.errs, err)
	}
}

// over reports whether ctx has ended, and reports that once.
func (r *remover) over(path string) bool {
	if r.ctx.Err() == nil {
		return false
	}
	if !r.ended {
		r.ended = true
		r.errs = append(r.errs, fmt.Errorf("delete %q: %w", path, context.Cause(r.ctx)))
	}
	return true
}

// remove deletes one name of a directory and reports whether it is gone.
func (r *remover) remove(dir int, name, path string, depth int) bool {
	if r.over(path) {
		return false
	}
	err := unix.Unlinkat(dir, name, 0)
	switch {
	case errors.Is(err, unix.EISDIR):
		return r.directory(dir, name, path, depth)
	case errors.Is(err, unix.EBUSY) && mountRoot(dir, name):
		err = &MountError{path}
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		r.fail(path, err)
		return false
	}
	return true
}

// mountRoot reports whether something is mounted on a name.
func mountRoot(dir int, name string) bool {
	var st unix.Statx_t
	err := unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st)
	return err == nil && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// directory empties a directory and removes it.
func (r *remover) directory(dir int, name, path string, depth int) bool {
	if depth >= maxDepth {
		return r.moveUp(dir, name, path)
	}
	for pass := 0; ; pass++ {
		removed, clean := r.empty(dir, name, path, depth)
		err := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
		switch {
		case err == nil || errors.Is(err, unix.ENOENT):
			return true
		case errors.Is(err, unix.ENOTEMPTY) && clean && removed > 0 && pass < maxPasses && r.ctx.Err() == nil:
			continue // read again: the file system or another process gave it more names
		case clean && r.ctx.Err() == nil: // else the reason is known already
			r.fail(path, err)
		}
		return false
	}
}

// empty deletes what is in a directory. clean says that nothing of that failed.
func (r *remover) empty(dir int, name, path string, depth int) (removed int, clean bool) {
	fd, err := unix.Openat2(dir, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	switch {
	case errors.Is(err, unix.ENOENT):
		return 0, true
	case errors.Is(err, unix.EXDEV):
		r.fail(path, &MountError{path})
		return 0, false
	case err != nil:
		r.fail(path, err)
		return 0, false
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	clean = true
	for {
		names, err := f.Readdirnames(batch)
		for _, n := range names {
			if r.remove(fd, n, path+"/"+n, depth+1) {
				removed++
			} else {
				clean = false
			}
		}
		switch {
		case r.ctx.Err() != nil:
			return removed, false
		case len(names) == 0 || err != nil:
			return removed, clean
		}
	}
}

// moveUp puts a directory that lies deep beside the tree, so that neither descriptors nor
// the stack grow with the depth. It counts as gone where it was.
func (r *remover) moveUp(dir int, name, path string) bool {
	for range 1000 {
		r.count++
		to := fmt.Sprintf(".fdtree-%d-%d", os.Getpid(), r.count)
		err := unix.Renameat2(dir, name, r.top, to, unix.RENAME_NOREPLACE)
		switch {
		case err == nil:
			r.moved = append(r.moved, moved{to, path})
			return true
		case errors.Is(err, unix.EEXIST):
			continue
		case errors.Is(err, unix.EBUSY):
			err = &MountError{path}
		}
		r.fail(path, err)
		return false
	}
	r.fail(path, unix.EEXIST)
	return false
}
