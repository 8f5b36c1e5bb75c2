package work

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"

	"golang.org/x/sys/unix"
)

// list returns the regular files of a tree outside .git, sorted; at most n of them if n is not 0.
func (w *worker) list(dir string, n, skip int) ([]string, error) {
	files, ok := w.lists[dir]
	if !ok {
		err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.Name() == ".git" && d.IsDir():
				return filepath.SkipDir
			case d.Type().IsRegular() && d.Name() != ".git":
				files = append(files, p)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		sort.Strings(files)
		w.lists[dir] = files
	}
	if n > 0 && n < len(files) {
		// Spread over the tree instead of the first directories.
		some := make([]string, 0, n)
		for i := range n {
			some = append(some, files[(i*len(files)/n+skip)%len(files)])
		}
		return some, nil
	}
	return files, nil
}

func statFiles(w *worker, r Request, measure func(func() error) error) (int, error) {
	files, err := w.list(r.Dir, r.N, r.Skip)
	if err != nil {
		return 0, err
	}
	var st unix.Stat_t
	return len(files), measure(func() error {
		for _, f := range files {
			if err := unix.Lstat(f, &st); err != nil {
				return fmt.Errorf("lstat %s: %w", f, err)
			}
		}
		return nil
	})
}

func openFiles(w *worker, r Request, measure func(func() error) error) (int, error) {
	files, err := w.list(r.Dir, r.N, r.Skip)
	if err != nil {
		return 0, err
	}
	flags := unix.O_RDONLY
	if r.Write {
		flags = unix.O_RDWR
	}
	passes := max(r.Passes, 1)
	return len(files) * passes, measure(func() error {
		for range passes {
			for _, f := range files {
				fd, err := unix.Open(f, flags|unix.O_CLOEXEC, 0)
				if err != nil {
					return fmt.Errorf("open %s: %w", f, err)
				}
				unix.Close(fd)
			}
		}
		return nil
	})
}

// appendFiles appends to files, so that git finds changes.
func appendFiles(w *worker, r Request, measure func(func() error) error) (int, error) {
	files, err := w.list(r.Dir, r.N, r.Skip)
	if err != nil {
		return 0, err
	}
	return len(files), measure(func() error {
		for _, f := range files {
			fd, err := unix.Open(f, unix.O_WRONLY|unix.O_APPEND|unix.O_CLOEXEC, 0)
			if err != nil {
				return fmt.Errorf("open %s: %w", f, err)
			}
			_, err = unix.Write(fd, []byte(r.Text))
			if err := errors.Join(err, unix.Close(fd)); err != nil {
				return fmt.Errorf("append to %s: %w", f, err)
			}
		}
		return nil
	})
}

func name(r Request, i int) string { return fmt.Sprintf("%s/%s/f%05d", r.Dir, r.Name, i) }

func createFiles(_ *worker, r Request, measure func(func() error) error) (int, error) {
	if err := os.Mkdir(filepath.Join(r.Dir, r.Name), 0o755); err != nil {
		return 0, err
	}
	text := []byte("a new file of one line, as programs write many of them\n")
	return r.N, measure(func() error {
		for i := range r.N {
			fd, err := unix.Open(name(r, i), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o644)
			if err != nil {
				return fmt.Errorf("create %s: %w", name(r, i), err)
			}
			_, err = unix.Write(fd, text)
			if err := errors.Join(err, unix.Close(fd)); err != nil {
				return fmt.Errorf("write %s: %w", name(r, i), err)
			}
		}
		return nil
	})
}

func unlinkFiles(_ *worker, r Request, measure func(func() error) error) (int, error) {
	err := measure(func() error {
		for i := range r.N {
			if err := unix.Unlink(name(r, i)); err != nil {
				return fmt.Errorf("unlink %s: %w", name(r, i), err)
			}
		}
		return nil
	})
	return r.N, errors.Join(err, os.Remove(filepath.Join(r.Dir, r.Name)))
}

// unlinkTracked removes files of the tree, not those that createFiles made.
func unlinkTracked(w *worker, r Request, measure func(func() error) error) (int, error) {
	files, err := w.list(r.Dir, r.N, r.Skip)
	if err != nil {
		return 0, err
	}
	return len(files), measure(func() error {
		for _, f := range files {
			if err := unix.Unlink(f); err != nil {
				return fmt.Errorf("unlink %s: %w", f, err)
			}
		}
		return nil
	})
}

func makeDir(_ *worker, r Request, measure func(func() error) error) (int, error) {
	return 1, measure(func() error { return os.MkdirAll(filepath.Join(r.Dir, r.Name), 0o755) })
}

// remove removes one file or tree. It is no error if it does not exist.
func remove(_ *worker, r Request, measure func(func() error) error) (int, error) {
	if r.Name == "" {
		return 0, errors.New("remove: no name")
	}
	return 1, measure(func() error { return os.RemoveAll(filepath.Join(r.Dir, r.Name)) })
}
