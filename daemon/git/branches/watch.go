package branches

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxDirs bounds the watched directories of one repository: agents name their
// branches, and every slash is a directory.
const maxDirs = 1024

// Git writes NAME.lock and renames it to NAME; others write in place.
const mask = unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_CREATE | unix.IN_DELETE | unix.IN_CLOSE_WRITE |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW

// Watcher watches one bare repository.
type Watcher struct {
	root       string
	file       *os.File         // the inotify descriptor
	dirs       map[int32]string // watch descriptor to directory; run's alone
	moved      chan struct{}
	incomplete atomic.Bool
	done       chan struct{}
}

// OpenWatcher begins to watch the branches of the bare repository at dir. An error
// (of inotify_init1(2) or inotify_add_watch(2)) means that the machine has no
// watches left for us: the caller has to look by itself now and then.
func OpenWatcher(dir string) (*Watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch the refs of %s: inotify_init1: %w", dir, err)
	}
	w := &Watcher{root: dir, file: os.NewFile(uintptr(fd), "inotify"), dirs: map[int32]string{}, moved: make(chan struct{}, 1), done: make(chan struct{})}
	if err = w.add(dir); err == nil {
		err = w.addTree(w.heads())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watch the refs of %s: %w", dir, err), w.file.Close())
	}
	go w.run()
	return w, nil
}

// Moved gets a value after branches may have moved; many moves can be one value.
func (w *Watcher) Moved() <-chan struct{} { return w.moved }

// Incomplete reports whether moves can have gone unnoticed: there are too many
// directories, or the repository was replaced. It stays so.
func (w *Watcher) Incomplete() bool { return w.incomplete.Load() }

// Close ends the watch.
func (w *Watcher) Close() error {
	err := w.file.Close()
	<-w.done
	return err
}

func (w *Watcher) heads() string { return filepath.Join(w.root, "refs", "heads") }

// add watches one directory.
func (w *Watcher) add(dir string) error {
	raw, err := w.file.SyscallConn()
	if err != nil {
		return err
	}
	var wd int
	var aerr error
	if err := raw.Control(func(fd uintptr) { wd, aerr = unix.InotifyAddWatch(int(fd), dir, mask) }); err != nil {
		return err
	}
	if aerr != nil {
		return &fs.PathError{Op: "inotify_add_watch", Path: dir, Err: aerr}
	}
	w.dirs[int32(wd)] = dir
	return nil
}

// addTree watches dir and all directories below. A directory that is removed meanwhile is not
// missed: its parent has an event.
func (w *Watcher) addTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		gone := errors.Is(err, fs.ErrNotExist)
		switch {
		case gone && path == dir && dir == w.heads():
			return err
		case gone:
			return nil
		case err != nil:
			return err
		case !e.IsDir():
			return nil
		case len(w.dirs) >= maxDirs:
			w.incomplete.Store(true)
			return fs.SkipAll
		}
		err = w.add(path)
		if (errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)) && path != w.heads() {
			return nil
		}
		return err
	})
}

// run reads events until Close.
func (w *Watcher) run() {
	defer close(w.done)
	buf := make([]byte, 64<<10)
	for {
		n, err := w.file.Read(buf)
		if err != nil {
			if !errors.Is(err, os.ErrClosed) {
				w.incomplete.Store(true)
				w.signal()
			}
			return
		}
		if w.handle(buf[:n]) {
			w.signal()
		}
	}
}

func (w *Watcher) signal() {
	select {
	case w.moved <- struct{}{}:
	default:
	}
}

// handle acts on inotify_event records (inotify(7)) and reports whether a
// branch may have moved.
func (w *Watcher) handle(b []byte) (moved bool) {
	for len(b) >= unix.SizeofInotifyEvent {
		ev := *(*unix.InotifyEvent)(unsafe.Pointer(unsafe.SliceData(b))) //nolint:gosec // the kernel's own layout, copied at once
		end := unix.SizeofInotifyEvent + int(ev.Len)
		if end > len(b) {
			break
		}
		name := string(bytes.TrimRight(b[unix.SizeofInotifyEvent:end], "\x00"))
		b = b[end:]
		moved = w.handleEvent(ev.Wd, ev.Mask, name) || moved
	}
	return moved
}

func (w *Watcher) handleEvent(wd int32, what uint32, name string) bool {
	if what&unix.IN_Q_OVERFLOW != 0 {
		w.rewatch(w.heads())
		return true
	}
	dir, known := w.dirs[wd]
	switch {
	case !known:
		return false
	case what&unix.IN_IGNORED != 0:
		delete(w.dirs, wd)
		return false
	case what&(unix.IN_DELETE_SELF|unix.IN_MOVE_SELF) != 0:
		if dir == w.root || dir == w.heads() {
			w.incomplete.Store(true)
		}
		return true
	case dir == w.root:
		return name == "packed-refs" || name == "HEAD" || name == "refs"
	case strings.HasSuffix(name, ".lock"):
		return false
	case what&unix.IN_ISDIR != 0 && what&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
		w.rewatch(filepath.Join(dir, name))
	}
	return true
}

// rewatch watches what appeared; a directory that cannot be watched makes the watch incomplete.
func (w *Watcher) rewatch(dir string) {
	if err := w.addTree(dir); err != nil {
		w.incomplete.Store(true)
	}
}
