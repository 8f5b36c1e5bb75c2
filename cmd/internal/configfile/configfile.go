package configfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"polis/daemon/host/walk"
)

// maxSize is the size of the largest file that is changed, in bytes.
const maxSize = 1 << 20

var (
	// ErrForeign reports that the file is in a directory that another user can write.
	ErrForeign = walk.ErrForeign
	// ErrBusy reports that another program holds the lock.
	ErrBusy = errors.New("another program is changing the configuration")
)

// File is a configuration file.
type File struct {
	// Path is absolute; it may be a symbolic link. A file that does not exist is made with mode 0644.
	Path string
	// Check returns an error if the file at path is not valid.
	Check func(ctx context.Context, path string) error
}

// opened is a file whose directory is open.
type opened struct {
	dir        *os.File
	path, base string
	text       string
	there      bool
	st         unix.Stat_t
}

// Writable returns an error unless this process may change the file: fs.ErrPermission, ErrForeign, or another one.
func (f File) Writable() error {
	o, err := f.open()
	if err != nil {
		return err
	}
	defer o.dir.Close()
	return unix.Faccessat(int(o.dir.Fd()), ".", unix.W_OK, unix.AT_EACCESS)
}

// Read returns the text of the file; "" if it does not exist.
func (f File) Read() (string, error) {
	b, err := os.ReadFile(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(b), err
}

// Edit changes the text. change can be called with any text that the file has by then; without an error, what it returns
// replaces the file, if Check accepts it. The same text changes nothing.
func (f File) Edit(ctx context.Context, change func(text string) (string, error)) (err error) {
	o, err := f.open()
	if err != nil {
		return err
	}
	defer o.dir.Close()
	unlock, err := o.lock(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := o.read(); err != nil {
		return err
	}
	text, err := change(o.text)
	if err != nil || text == o.text {
		return err
	}
	name := "." + o.base + ".new" // what a crash left is replaced
	if err := o.remove(name); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.remove(name))
		}
	}()
	if err := o.write(name, text); err != nil {
		return fmt.Errorf("write %s: %w", o.path, err)
	}
	if err := f.Check(ctx, filepath.Join(filepath.Dir(o.path), name)); err != nil {
		return err
	}
	fd := int(o.dir.Fd())
	if err := unix.Renameat(fd, name, fd, o.base); err != nil {
		return &os.PathError{Op: "replace", Path: o.path, Err: err}
	}
	return unix.Fsync(fd)
}

// open resolves the path, and opens the directory of the file.
func (f File) open() (*opened, error) {
	path, err := filepath.EvalSymlinks(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, lerr := os.Lstat(f.Path); lerr == nil {
			return nil, fmt.Errorf("%s is a link that leads nowhere: %w", f.Path, err)
		}
		var dir string
		dir, err = filepath.EvalSymlinks(filepath.Dir(f.Path))
		path = filepath.Join(dir, filepath.Base(f.Path))
	}
	if err != nil {
		return nil, err
	}
	o := &opened{path: path, base: filepath.Base(path)}
	if os.Geteuid() == 0 {
		if o.dir, err = walk.Own(filepath.Dir(path), 0); err != nil {
			return nil, err
		}
		defer o.dir.Close() // what is written needs another one than O_PATH
		o.dir, err = os.Open(walk.Path(o.dir, "."))
	} else {
		o.dir, err = os.Open(filepath.Dir(path))
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

func (o *opened) read() error {
	fd, err := unix.Openat(int(o.dir.Fd()), o.base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: o.path, Err: err}
	}
	file := os.NewFile(uintptr(fd), o.path)
	defer file.Close()
	if err := unix.Fstat(fd, &o.st); err != nil {
		return err
	}
	if o.st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("%s is not a regular file: %w", o.path, fs.ErrInvalid)
	}
	b, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	if err == nil && len(b) > maxSize {
		err = fmt.Errorf("%s has more than %d bytes: %w", o.path, maxSize, fs.ErrInvalid)
	}
	o.text, o.there = string(b), true
	return err
}

// write makes a file with the owner, group and mode of the old one.
func (o *opened) write(name, text string) error {
	fd, err := unix.Openat(int(o.dir.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), name)
	mode := uint32(0o644)
	_, err = file.WriteString(text)
	if o.there {
		mode = o.st.Mode & 0o7777
		if int(o.st.Uid) != os.Geteuid() || int(o.st.Gid) != os.Getegid() {
			err = errors.Join(err, unix.Fchown(fd, int(o.st.Uid), int(o.st.Gid)))
		}
	}
	return errors.Join(err, unix.Fchmod(fd, mode), file.Sync(), file.Close())
}

func (o *opened) remove(name string) error {
	if err := unix.Unlinkat(int(o.dir.Fd()), name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return &os.PathError{Op: "remove", Path: filepath.Join(filepath.Dir(o.path), name), Err: err}
	}
	return nil
}
