package tempfile

import (
	"errors"
	"fmt"
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

	mu    sync.Mutex
	out   *os.File
	lines int
	files map[string]entry
	some  atomic.Bool // there are entries
	live  int
	ended int
}

// entry is a temporary file. One that is gone is kept for a while: programs remove files that they use yet.
type entry struct {
	of   string
	gone bool
}

// Open reads the record of an earlier Table and begins a new one. root is a descriptor of the directory below the
// view. keep is one of the directory of the record, which only root can write; -1 keeps none. Open duplicates them.
func Open(root, keep int) (*Table, error) {
	t := &Table{root: -1, keep: -1, files: map[string]entry{}}
	var err error
	if t.root, err = duplicate(root); err == nil && keep >= 0 {
		t.keep, err = duplicate(keep)
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
	if _, live := t.known(path); !live { // it came with a copy of the worktree, or from a snapshot
		t.add(path, f.Of)
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

// Known returns what the table has of a path without looking at the file. live is false if the file is gone, and may
// be used by programs yet.
func (t *Table) Known(path string) (of string, live, ok bool) {
	if t == nil || !t.some.Load() {
		return "", false, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.files[path]
	return e.of, ok && !e.gone, ok
}

func (t *Table) known(path string) (of string, live bool) {
	e, ok := t.files[path]
	return e.of, ok && !e.gone
}

// Reserve records a path before there is a temporary file at it. The error is ErrFull if there are too many, else
// that of the record.
func (t *Table) Reserve(path, of string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, live := t.known(path); !live && t.live >= Max {
		t.prune()
		if t.live >= Max {
			return ErrFull
		}
	}
	path = strings.Clone(path) // it may be part of a request's buffer
	t.add(path, of)
	if t.keep < 0 {
		return nil
	}
	if t.lines >= maxLines {
		return t.rewrite()
	}
	t.lines++
	if _, err := t.out.Write(append([]byte(path), 0)); err != nil {
		return fmt.Errorf("write the record of temporary files: %w", err)
	}
	return nil
}

// add adds a file. mu is held.
func (t *Table) add(path, of string) {
	e, ok := t.files[path]
	switch {
	case !ok:
		t.live++
	case e.gone:
		t.live, t.ended = t.live+1, t.ended-1
	}
	t.files[path] = entry{of: of}
	t.some.Store(true)
}

// prune removes the files that are gone without a notice. mu is held.
func (t *Table) prune() {
	for path, e := range t.files {
		if e.gone {
			continue
		}
		if f := look(t.root, path); f != nil {
			f.Close()
			continue
		}
		delete(t.files, path)
		t.live--
	}
}

// Update changes the name of the file that the temporary file at a path stands for.
func (t *Table) Update(path, of string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, ok := t.files[path]; ok {
		t.files[path] = entry{of, e.gone}
	}
}

// End records that the file at a path is temporary no more: it was removed or renamed.
func (t *Table) End(path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.files[path]
	if !ok || e.gone {
		return
	}
	if t.ended >= Max {
		for p, e := range t.files {
			if e.gone {
				delete(t.files, p)
			}
		}
		t.ended = 0
	}
	t.files[path] = entry{e.of, true}
	t.live, t.ended = t.live-1, t.ended+1
}

// Paths returns the paths of the temporary files, sorted.
func (t *Table) Paths() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]string, 0, t.live)
	for path, e := range t.files {
		if !e.gone {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return out
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
