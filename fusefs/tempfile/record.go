package tempfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// RecordName is the name of the record.
const RecordName = "temp-files"

const (
	// maxRecord bounds what is read of a record.
	maxRecord = 3 * Max * (unix.PathMax + 1)
	// maxLines is the number of entries at which a record is written again.
	maxLines = 2 * Max
)

// read takes over what is a temporary file yet of those that the record names.
func (t *Table) read() error {
	if t.keep < 0 {
		return nil
	}
	fd, err := openAt(t.keep, RecordName, unix.O_RDONLY|unix.O_NONBLOCK)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the record of temporary files: %w", err)
	}
	in := os.NewFile(uintptr(fd), RecordName)
	defer in.Close()
	b, err := io.ReadAll(io.LimitReader(in, maxRecord))
	if err != nil {
		return fmt.Errorf("read the record of temporary files: %w", err)
	}
	for _, path := range parseRecord(b) {
		if _, known := t.files[path]; known || len(t.files) == Max {
			continue
		}
		if f := look(t.root, path); f != nil {
			t.add(path, f.Of)
			f.Close()
		}
	}
	return nil
}

// parseRecord returns the paths of a record: each ends with NUL. What follows the last NUL was not written whole.
func parseRecord(b []byte) []string {
	var out []string
	for rest := string(b); ; {
		var path string
		var ok bool
		if path, rest, ok = strings.Cut(rest, "\x00"); !ok {
			return out
		}
		if path != "" && len(path) <= unix.PathMax {
			out = append(out, path)
		}
	}
}

// rewrite replaces the record by one of what is there. mu is held, or nobody else has the table.
func (t *Table) rewrite() error {
	if t.keep < 0 {
		return nil
	}
	const next = RecordName + ".new"
	fd, err := unix.Openat(t.keep, next, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_APPEND|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("write the record of temporary files: %w", err)
	}
	out := os.NewFile(uintptr(fd), next)
	var b []byte
	for path := range t.files {
		b = append(append(b, path...), 0)
	}
	if _, err = out.Write(b); err == nil {
		err = out.Sync()
	}
	if err == nil {
		err = unix.Renameat(t.keep, next, t.keep, RecordName)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write the record of temporary files: %w", err), out.Close())
	}
	if t.out != nil {
		_ = t.out.Close() // it is replaced
	}
	t.out, t.lines = out, len(t.files)
	return nil
}

// note appends a path to the record. mu is held.
func (t *Table) note(path string) error {
	if t.keep < 0 {
		return nil
	}
	moved, err := t.follow()
	switch {
	case err != nil:
		return err
	case moved, t.lines >= maxLines, !t.inPlace():
		return t.rewrite()
	}
	t.lines++
	if _, err := t.out.Write(append([]byte(path), 0)); err != nil {
		return fmt.Errorf("write the record of temporary files: %w", err)
	}
	return nil
}

// follow reports whether the directory of the record is another one, and uses that from now on: it was removed
// or moved.
func (t *Table) follow() (moved bool, err error) {
	fd, err := t.reopen()
	if err != nil {
		return false, fmt.Errorf("open the directory of the record of temporary files: %w", err)
	}
	var was, now unix.Stat_t
	if err = unix.Fstat(t.keep, &was); err == nil {
		err = unix.Fstat(fd, &now)
	}
	if err != nil || was.Dev == now.Dev && was.Ino == now.Ino {
		return false, errors.Join(err, unix.Close(fd))
	}
	old := t.keep
	t.keep = fd
	return true, unix.Close(old)
}

// inPlace reports whether the record that is written is the one in the directory.
func (t *Table) inPlace() bool {
	var is, at unix.Stat_t
	return t.out != nil && unix.Fstat(int(t.out.Fd()), &is) == nil &&
		unix.Fstatat(t.keep, RecordName, &at, unix.AT_SYMLINK_NOFOLLOW) == nil && is.Dev == at.Dev && is.Ino == at.Ino
}
