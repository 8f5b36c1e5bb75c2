package fdtree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Entry is one file, directory or other object that Walk meets. It is valid during
// the call it is given to.
type Entry struct {
	// Dir is a descriptor of the directory the object lies in, Name its name there,
	// as it is: any bytes. Of the top, Name is ".".
	Dir  int
	Name string
	// Depth is 0 for the top, 1 for what lies in it.
	Depth int
	Stat  unix.Stat_t
}

// IsDir reports whether the object is a directory.
func (e *Entry) IsDir() bool { return e.Stat.Mode&unix.S_IFMT == unix.S_IFDIR }

// IsRegular reports whether the object is a regular file.
func (e *Entry) IsRegular() bool { return e.Stat.Mode&unix.S_IFMT == unix.S_IFREG }

// Walk calls visit for the directory that top is and for everything below, parents
// first. The tree may change meanwhile: what is gone when its turn comes is left out,
// and so is what is moved to where the walk has been. Walk does not enter a file
// system that is mounted below, and follows no link.
//
// An error of visit, and the end of ctx, end the walk. What cannot be read is
// left out and reported at the end: the errors joined, at most eight of them.
func Walk(ctx context.Context, top int, visit func(*Entry) error) error {
	w := &walker{ctx: ctx, top: top, visit: visit}
	defer w.close()
	e := Entry{Dir: top, Name: "."}
	if err := unix.Fstat(top, &e.Stat); err != nil {
		return fmt.Errorf("walk: %w", err)
	}
	if err := visit(&e); err != nil {
		return err
	}
	if err := w.enter(top, "."); err != nil {
		return err
	}
	for len(w.frames) > 0 {
		f := &w.frames[len(w.frames)-1]
		if len(f.dirs) == 0 {
			w.leave()
			continue
		}
		name := f.dirs[len(f.dirs)-1]
		f.dirs = f.dirs[:len(f.dirs)-1]
		if f.fd < 0 { // it could not be found again
			continue
		}
		if err := w.enter(f.fd, name); err != nil {
			return err
		}
	}
	return errors.Join(w.errs...)
}

// frame is a directory whose subdirectories are walked. Of those that lie more
// than maxDepth above the current one the descriptor is closed (-1).
type frame struct {
	fd       int
	dev, ino uint64
	name     string
	dirs     []string // not walked yet
}

type walker struct {
	ctx    context.Context
	top    int
	visit  func(*Entry) error
	frames []frame
	errs   []error
}

func (w *walker) fail(name string, err error) {
	if len(w.errs) < maxErrors {
		w.errs = append(w.errs, fmt.Errorf("read directory %s at depth %d: %w", strconv.Quote(name), len(w.frames), err))
	}
}

// enter visits what is in a directory and makes it the current one.
func (w *walker) enter(dir int, name string) error {
	fd, err := openDir(dir, name)
	switch {
	case err == nil:
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV):
		return nil
	default:
		w.fail(name, err)
		return nil
	}
	f := frame{fd: fd, name: name}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		w.fail(name, errors.Join(err, unix.Close(fd)))
		return nil
	}
	f.dev, f.ino = st.Dev, st.Ino
	w.frames = append(w.frames, f)
	return w.list(&w.frames[len(w.frames)-1])
}

func openDir(dir int, name string) (int, error) {
	how := unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	for {
		fd, err := unix.Openat2(dir, name, &how)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) { // EAGAIN: a rename raced with the walk
			return fd, err
		}
	}
}

// list visits the names of a directory and notes its subdirectories.
func (w *walker) list(f *frame) error {
	again, err := unix.FcntlInt(uintptr(f.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		w.fail(f.name, err)
		return nil
	}
	d := os.NewFile(uintptr(again), f.name)
	defer d.Close()
	e := Entry{Dir: f.fd, Depth: len(w.frames)}
	for {
		if w.ctx.Err() != nil {
			return context.Cause(w.ctx)
		}
		names, err := d.Readdirnames(batch)
		for _, e.Name = range names {
			switch err := unix.Fstatat(f.fd, e.Name, &e.Stat, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT); {
			case errors.Is(err, unix.ENOENT):
				continue
			case err != nil:
				w.fail(e.Name, err)
				continue
			}
			if err := w.visit(&e); err != nil {
				return err
			}
			if e.IsDir() {
				f.dirs = append(f.dirs, e.Name)
			}
		}
		if len(names) == 0 || err != nil {
			break
		}
	}
	slices.Reverse(f.dirs) // taken from the end
	// However deep the tree, few descriptors are open.
	if far := len(w.frames) - 1 - maxDepth; far >= 0 {
		w.shut(&w.frames[far])
	}
	return nil
}

// leave goes back to the directory above.
func (w *walker) leave() {
	last := &w.frames[len(w.frames)-1]
	if n := len(w.frames) - 2; n >= 0 && w.frames[n].fd < 0 && len(w.frames[n].dirs) > 0 {
		w.reopen(&w.frames[n], last.fd)
	}
	w.shut(last)
	w.frames = w.frames[:len(w.frames)-1]
}

// reopen finds a directory again whose descriptor was closed: above the one below
// it, or, if that was moved meanwhile, by the names from the top.
func (w *walker) reopen(f *frame, below int) {
	if below >= 0 {
		fd, err := unix.Openat(below, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == nil && w.keep(f, fd) {
			return
		}
	}
	at, err := openDir(w.top, ".")
	for i := range w.frames {
		if err != nil {
			break
		}
		if &w.frames[i] == f {
			if !w.keep(f, at) {
				w.fail(f.name, unix.ESTALE)
			}
			return
		}
		up := at
		at, err = openDir(up, w.frames[i+1].name)
		err = errors.Join(err, unix.Close(up))
	}
	w.fail(f.name, err)
}

// keep takes a descriptor for a frame if it is of the same directory.
func (w *walker) keep(f *frame, fd int) bool {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err == nil && st.Dev == f.dev && st.Ino == f.ino {
		f.fd = fd
		return true
	}
	w.shut(&frame{fd: fd})
	return false
}

func (w *walker) shut(f *frame) {
	if f.fd < 0 {
		return
	}
	if err := unix.Close(f.fd); err != nil {
		w.fail(f.name, err)
	}
	f.fd = -1
}

func (w *walker) close() {
	for i := range w.frames {
		w.shut(&w.frames[i])
	}
}
