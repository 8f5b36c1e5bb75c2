package tempfile

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Max is the number of temporary files that an agent can have at the same time.
const Max = 1024

// ErrFull reports that there are Max temporary files.
var ErrFull = errors.New("too many temporary files")

// Table has the temporary files of one agent. It is safe for concurrent use. A nil Table has none.
type Table struct {
	root int
	// keep is the directory of the record; -1: there is none.
	keep int

	// reopen opens the directory of the record by its path; may be nil.
	reopen func() (int, error)

	mu    sync.Mutex
	out   *os.File
	lines int
	files map[string]string // path to the name of the file that was renamed to it
	some  atomic.Bool       // there are files
}

// Open reads the record of an earlier Table and begins a new one. root is a descriptor of the directory below the
// view, which Open duplicates. keep opens the directory of the record, which only root can write; nil keeps none. It is
// called again at each new file, and the record is written again if the directory is another one by then.
func Open(root int, keep func() (int, error)) (*Table, error) {
	t := &Table{root: -1, keep: -1, reopen: keep, files: map[string]string{}}
	var err error
	if t.root, err = duplicate(root); err == nil && keep != nil {
		if t.keep, err = keep(); err != nil {
			t.keep, err = -1, fmt.Errorf("open the directory of the record of temporary files: %w", err)
		}
	}
	if err == nil {
		err = t.read()
	}
	if err == nil {
		err = t.rewrite()
	}
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func duplicate(dir int) (int, error) {
	fd, err := unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return -1, fmt.Errorf("temporary files: hold a directory: %w", err)
	}
	return fd, nil
}

// Close closes the descriptors. The record stays.
func (t *Table) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var errs []error
	for _, fd := range []int{t.root, t.keep} {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	if t.out != nil {
		errs = append(errs, t.out.Close())
	}
	return errors.Join(errs...)
}

// Look opens the file at a path if it is a temporary one, else it returns nil.
func (t *Table) Look(path string) *File {
	if t == nil {
		return nil
	}
	f := look(t.root, path)
	if f == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if of, known := t.files[path]; !known || of != f.Of { // it came with a copy of the worktree, or from a snapshot
		t.add(strings.Clone(path), f.Of)
	}
	return f
}

// Absent reports whether there is nothing at a path. A whiteout is nothing.
func (t *Table) Absent(path string) bool {
	fd, err := openAt(t.root, path, unix.O_PATH)
	if err != nil {
		return errors.Is(err, unix.ENOENT)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0
}

// At reports whether a path is another name of a file.
func (t *Table) At(f *File, path string) bool {
	fd, err := openAt(t.root, path, unix.O_PATH)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Dev == f.dev && st.Ino == f.ino
}

// Directory reports whether a path is a directory; false without a table.
func (t *Table) Directory(path string) bool {
	if t == nil {
		return false
	}
	fd, err := openAt(t.root, path, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	return unix.Close(fd) == nil
}

// Known returns what the table has of a path without looking at the file.
func (t *Table) Known(path string) (of string, ok bool) {
	if t == nil || !t.some.Load() {
		return "", false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	of, ok = t.files[path]
	return of, ok
}

// Reserve records a path before there is a temporary file at it. The error is ErrFull if there are too many, else
// that of the record. With of, the record is on the disk when it returns: the file must be read by the rules of that name
// also after a crash of the machine.
func (t *Table) Reserve(path, of string) error {
	out, err := t.reserve(strings.Clone(path), of) // it may be part of a request's buffer
	if err != nil || of == "" || out == nil {
		return err
	}
	if err := out.Sync(); err != nil && !errors.Is(err, os.ErrClosed) { // rewrite has closed it, and written the new one to the disk
		return fmt.Errorf("write the record of temporary files: %w", err)
	}
	return nil
}

func (t *Table) reserve(path, of string) (out *os.File, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, known := t.files[path]
	if !known && len(t.files) >= Max {
		t.prune()
		if len(t.files) >= Max {
			return nil, ErrFull
		}
	}
	t.add(path, of)
	if err = t.note(path); err != nil && !known {
		delete(t.files, path)
	}
	return t.out, err
}

// add adds a file. mu is held.
func (t *Table) add(path, of string) {
	t.files[path] = of
	t.some.Store(true)
}

// prune removes the files that are gone without a notice. mu is held.
func (t *Table) prune() {
	for path := range t.files {
		if f := look(t.root, path); f != nil {
			f.Close()
			continue
		}
		delete(t.files, path)
	}
}

// Update changes the name of the file that the temporary file at a path stands for.
func (t *Table) Update(path, of string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.files[path]; ok {
		t.files[path] = of
	}
}

// End records that the file at a path is temporary no more: it was removed or renamed.
func (t *Table) End(path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.files, path)
}

// Paths returns the paths of the temporary files, sorted.
func (t *Table) Paths() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(maps.Keys(t.files))
}

// Permit makes ordinary files of those that the rules now let the agent write.
func (t *Table) Permit(writable func(path string) bool) error {
	if t == nil {
		return nil
	}
	var errs []error
	for _, path := range t.Paths() {
		if !writable(path) {
			continue
		}
		if f := look(t.root, path); f != nil {
			errs = append(errs, Clear(f.FD))
			f.Close()
		}
		t.End(path)
	}
	return errors.Join(errs...)
}
