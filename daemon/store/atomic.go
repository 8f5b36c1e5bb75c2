package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"polis/internal/failpoint"
)

// MaxFile bounds what is read back, in bytes.
const MaxFile = 64 << 20

// ErrCorrupt reports that a state file is malformed; it was renamed.
var ErrCorrupt = errors.New("state file is corrupt")

// Backup is what WriteKept leaves beside path: the content before the last one.
func Backup(path string) string { return path + ".old" }

// WriteKept is WriteSummed that keeps the content before as Backup(path). On a
// full disk neither is touched.
func WriteKept(path string, v any) error { return write(path, v, true, keep) }

// keep gives the content of path a second name: nothing is copied, nothing can
// be half.
func keep(path string) error {
	old := Backup(path)
	tmp := old + ".new"
	if err := ignoreMissing(os.Remove(tmp)); err != nil {
		return fmt.Errorf("keep %s: %w", path, err)
	}
	err := os.Link(path, tmp)
	if err == nil {
		err = os.Rename(tmp, old)
	}
	if ignoreMissing(err) != nil {
		return errors.Join(fmt.Errorf("keep %s: %w", path, err), ignoreMissing(os.Remove(tmp)))
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// WriteJSON replaces path with v so that a crash leaves the old or the new
// content, never a part.
func WriteJSON(path string, v any) error { return write(path, v, false, nil) }

// write calls before, if given, when the new content is safe beside path.
func write(path string, v any, sum bool, before func(path string) error) (err error) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	b = append(b, '\n')
	if sum {
		b = addSum(b)
	}
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	if _, err = f.Write(b); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err = f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	if before != nil {
		if err = before(path); err != nil {
			return err
		}
	}
	failpoint.Hit("state:written")
	if err = os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	// From here on the new content is in place; only its durability is open.
	if cerr := f.Close(); cerr != nil {
		return fmt.Errorf("close %s: %w", path, cerr)
	}
	return syncDir(dir)
}

// Sweep removes what a crash in the middle of a write left beside path.
func Sweep(path string) error {
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".*"))
	errs := []error{err}
	for _, p := range append(left, Backup(path)+".new") {
		errs = append(errs, ignoreMissing(os.Remove(p)))
	}
	return errors.Join(errs...)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// ReadKept reads what WriteKept wrote. If the file is corrupt it
// is renamed, v is read from the backup (if that is good: restored) and
// ErrCorrupt is returned all the same. A file of a newer program (ErrNewer) stays.
func ReadKept[T any](path string, v *T, now time.Time, good func(T) error) (restored bool, err error) {
	b, err := readBounded(path)
	var got T
	if err == nil {
		if err = Decode(b, &got); errors.Is(err, ErrNewer) {
			return false, fmt.Errorf("%s: %w", path, err)
		}
		if err == nil {
			err = good(got)
		}
		if err == nil {
			*v = got
			return false, nil
		}
		err = renameCorrupt(path, now, err)
	} else if errors.Is(err, ErrCorrupt) {
		err = renameCorrupt(path, now, err)
	}
	if !errors.Is(err, ErrCorrupt) {
		return false, err
	}
	return readBackup(path, v, good), err
}

func readBackup[T any](path string, v *T, good func(T) error) bool {
	b, err := readBounded(Backup(path))
	if err != nil {
		return false
	}
	var got T
	if Decode(b, &got) != nil || good(got) != nil {
		return false
	}
	*v = got
	return true
}

// ReadJSON reads path into v. A file that is not JSON of v's shape is moved
// to path.corrupt-TIME and ErrCorrupt is returned; a missing file is
// fs.ErrNotExist.
func ReadJSON(path string, v any, now time.Time) error {
	fi, err := os.Stat(path)
	if err != nil {
		return err
	}
	if fi.Size() > MaxFile {
		return renameCorrupt(path, now, fmt.Errorf("%d bytes are over the limit", fi.Size()))
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return renameCorrupt(path, now, err)
	}
	return nil
}

func renameCorrupt(path string, now time.Time, why error) error {
	to := path + ".corrupt-" + now.UTC().Format("20060102T150405.000000000Z")
	if err := os.Rename(path, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w (%w) and could not be renamed: %w", ErrCorrupt, why, err)
	}
	return fmt.Errorf("%w (%w); kept as %s", ErrCorrupt, why, to)
}
