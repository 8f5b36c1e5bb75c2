package tempfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// maxRecord bounds what is read of a record.
	maxRecord = 3 * Max * (unix.PathMax + 1)
	// maxLines is the number of entries at which a record is written again.
	maxLines = 2 * Max
)

// read takes over what is a temporary file yet of those that the record names.
func (t *Table) read() error {
	if t.record == "" {
		return nil
	}
	in, err := os.OpenFile(t.record, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the record of temporary files: %w", err)
	}
	defer in.Close()
	b, err := io.ReadAll(io.LimitReader(in, maxRecord))
	if err != nil {
		return fmt.Errorf("read the record of temporary files: %w", err)
	}
	for _, path := range parseRecord(b) {
		if _, known := t.files[path]; known || t.live == Max {
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
	if t.record == "" {
		return nil
	}
	next := t.record + ".new"
	out, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("write the record of temporary files: %w", err)
	}
	var b []byte
	for path, e := range t.files {
		if !e.gone {
			b = append(append(b, path...), 0)
		}
	}
	_, err = out.Write(b)
	if err == nil {
		err = os.Rename(next, t.record)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write the record of temporary files: %w", err), out.Close())
	}
	if t.out != nil {
		err = t.out.Close()
	}
	t.out, t.lines = out, t.live
	return err
}
