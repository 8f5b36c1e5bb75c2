package nested

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"polis/daemon/host/walk"
)

// Limits of what is read.
const (
	maxText   = 1 << 20  // bytes of a small file: HEAD, config, a ref
	maxPacked = 64 << 20 // bytes of packed-refs
	maxNames  = 20_000   // refs, or repositories
	maxDepth  = 32       // directories below refs or modules
)

// ErrOdd: a repository has a form that this package does not read.
var ErrOdd = errors.New("the repository has a form that polis does not read")

// Open opens a path below a directory. It follows no symbolic link and enters no other file system.
func Open(dir *os.File, name string, flags uint64) (*os.File, error) {
	if flags&unix.O_PATH == 0 {
		flags |= unix.O_NONBLOCK // a pipe blocks nothing
	}
	return walk.Inside(dir, name, unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_NO_XDEV})
}

// OpenDir opens a directory below another one.
func OpenDir(dir *os.File, name string) (*os.File, error) {
	return Open(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
}

// read returns the content of a regular file of at most most bytes.
func read(dir *os.File, name string, most int64) ([]byte, error) {
	f, err := Open(dir, name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() || fi.Size() > most {
		return nil, fmt.Errorf("%q is no regular file of at most %d bytes: %w", name, most, ErrOdd)
	}
	return io.ReadAll(io.LimitReader(f, most))
}

// kind returns the type of a name in a directory; fs.ModeIrregular if it is missing.
func kind(dir *os.File, name string) (fs.FileMode, error) {
	f, err := Open(dir, name, unix.O_PATH|unix.O_NOFOLLOW)
	if errors.Is(err, fs.ErrNotExist) {
		return fs.ModeIrregular, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return fi.Mode().Type(), nil
}

// names lists a directory, with the types of its entries.
func names(dir *os.File) ([]fs.DirEntry, error) {
	list, err := dir.ReadDir(maxNames + 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err == nil && len(list) > maxNames {
		err = fmt.Errorf("%q has more than %d names: %w", dir.Name(), maxNames, ErrOdd)
	}
	return list, err
}
