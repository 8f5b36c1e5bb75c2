package policyrecord

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"polis/internal/failpoint"
)

// maxTail is how many bytes are appended to a coarse run before its file is written again.
const maxTail = 8 << 20

// resume continues a file if it is of this life of a shim. torn is how many bytes of an incomplete entry it has
// replaced by an entry that reports them.
func (w *writer) resume(number int, life uint64) (torn int64, err error) {
	r, whole, err := readRun(w.dir, number)
	if err != nil || r.head.Life != life {
		return 0, err
	}
	f, err := os.OpenFile(filepath.Join(w.dir, fileName(number)), os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	if torn, err = cut(f, r, whole); err != nil {
		return 0, errors.Join(err, f.Close())
	}
	w.run, w.f = r, f
	return torn, nil
}

// cut removes what follows the complete lines of a run. The entry about it is written in the same place first: what a
// crash in between leaves is a shorter incomplete one.
func cut(f *os.File, r *run, whole int64) (torn int64, err error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil || size == whole {
		return 0, err
	}
	torn = size - whole
	l := line{Cut: r.cut + torn}
	text, err := encode([]line{l})
	if err != nil {
		return 0, err
	}
	if _, err = f.WriteAt(text, whole); err != nil {
		return 0, err
	}
	failpoint.Hit("policyrecord:cut")
	if err = f.Truncate(whole + int64(len(text))); err == nil {
		err = f.Sync()
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekEnd)
	}
	r.take(l)
	return torn, err
}

// append adds lines to the file.
func (w *writer) append(lines []line) error {
	text, err := encode(lines)
	if err != nil {
		return err
	}
	if _, err := w.f.Write(text); err != nil {
		return err
	}
	failpoint.Hit("policyrecord:written")
	return w.f.Sync()
}

// size is the size of the file.
func (w *writer) size() int64 {
	n, err := w.f.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0 // the next write reports it
	}
	return n
}

// rewrite replaces the file, and keeps it open.
func (w *writer) rewrite() error {
	f, err := w.replace()
	if err != nil {
		return err
	}
	if w.f != nil {
		err = w.f.Close()
	}
	w.f = f
	return err
}

// rewriteOnce replaces the file.
func (w *writer) rewriteOnce() error {
	f, err := w.replace()
	if err != nil {
		return err
	}
	return f.Close()
}

func (w *writer) replace() (f *os.File, err error) {
	text, err := encode(w.all())
	if err != nil {
		return nil, err
	}
	path := filepath.Join(w.dir, fileName(w.number))
	tmp := path + ".new"
	if f, err = os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(tmp))
		}
	}()
	if _, err = f.Write(text); err != nil {
		return nil, err
	}
	if err = f.Sync(); err != nil {
		return nil, err
	}
	failpoint.Hit("policyrecord:new")
	if err = os.Rename(tmp, path); err != nil {
		return nil, err
	}
	return f, syncDir(w.dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
