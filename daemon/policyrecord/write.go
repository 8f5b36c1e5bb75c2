package policyrecord

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"polis/daemon/failpoint"
)

// maxTail is how many bytes are appended to a coarse run before its file is written again.
const maxTail = 8 << 20

// resume continues a file if it is of this life of a shim.
func (w *writer) resume(number int, life uint64) error {
	r, whole, err := readRun(w.dir, number)
	if err != nil || r.head.Life != life {
		return err
	}
	f, err := os.OpenFile(filepath.Join(w.dir, fileName(number)), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if err = f.Truncate(whole); err == nil {
		_, err = f.Seek(0, io.SeekEnd)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	w.run, w.f = r, f
	return nil
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
