package fdtree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// maxCopyDepth bounds the depth of a tree that Copy copies: it holds two descriptors for each level.
const maxCopyDepth = 128

// ErrDeep: a tree is too deep to be copied.
var ErrDeep = errors.New("the tree is too deep")

// Copier copies trees.
type Copier struct {
	// Skip is called with the path and the attributes of every object below the top; true leaves it
	// out, with everything below it. Nil copies all.
	Skip func(path string, st *unix.Stat_t) bool
	// Attr reports whether an extended attribute is copied; nil: none is.
	Attr func(name string) bool
	// Whole makes an object on another file system an error, in place of leaving it out.
	Whole bool
}

// Copy copies what is in the directory from to the directory to, which is empty, and its mode, owner,
// times and attributes: files, with a clone of their blocks if the file system can make one,
// directories, symbolic links, pipes and character devices with the number 0:0, which are the whiteouts
// of overlayfs. A file with several names becomes several files. Sockets and other devices are left
// out. It follows no link and enters no other file system (see Whole). It ends soon after ctx does, with its cause.
func (c *Copier) Copy(ctx context.Context, from, to int) error {
	var st unix.Stat_t
	if err := unix.Fstat(from, &st); err != nil {
		return fmt.Errorf("copy a tree: %w", err)
	}
	if err := c.directory(ctx, from, to, "", &st, 0); err != nil {
		return fmt.Errorf("copy a tree: %w", err)
	}
	return nil
}

func (c *Copier) directory(ctx context.Context, from, to int, path string, st *unix.Stat_t, depth int) error {
	if depth > maxCopyDepth {
		return fmt.Errorf("%q: %w", path, ErrDeep)
	}
	list, err := unix.Openat(from, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	dir := os.NewFile(uintptr(list), path)
	defer dir.Close()
	for {
		names, rerr := dir.Readdirnames(512)
		for _, name := range names {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := c.object(ctx, list, to, name, path+name, st, depth); err != nil {
				return err
			}
		}
		if errors.Is(rerr, io.EOF) || rerr == nil && len(names) == 0 {
			break
		}
		if rerr != nil {
			return &os.PathError{Op: "readdir", Path: path, Err: rerr}
		}
	}
	return c.finish(list, to, path, st)
}

// object copies one name. What is removed meanwhile is left out.
func (c *Copier) object(ctx context.Context, from, to int, name, path string, parent *unix.Stat_t, depth int) error {
	fail := func(op string, err error) error {
		if errors.Is(err, unix.ENOENT) && op != "create" {
			return nil
		}
		return &os.PathError{Op: op, Path: path, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstatat(from, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fail("stat", err)
	}
	if c.Whole && st.Dev != parent.Dev {
		return fail("copy", unix.EXDEV)
	}
	if st.Dev != parent.Dev || c.Skip != nil && c.Skip(path, &st) {
		return nil
	}
	switch kind := st.Mode & unix.S_IFMT; kind {
	case unix.S_IFDIR:
		src, err := unix.Openat(from, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return fail("open", err)
		}
		defer unix.Close(src)
		if err := unix.Mkdirat(to, name, 0o700); err != nil {
			return fail("create", err)
		}
		dst, err := unix.Openat(to, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return fail("create", err)
		}
		defer unix.Close(dst)
		return c.directory(ctx, src, dst, path+"/", &st, depth+1)
	case unix.S_IFREG:
		return c.file(ctx, from, to, name, path)
	case unix.S_IFLNK:
		var target [unix.PathMax]byte
		n, err := unix.Readlinkat(from, name, target[:])
		if err != nil {
			return fail("readlink", err)
		}
		if err := unix.Symlinkat(string(target[:n]), to, name); err != nil {
			return fail("create", err)
		}
	case unix.S_IFIFO, unix.S_IFCHR:
		if kind == unix.S_IFCHR && st.Rdev != 0 {
			return nil
		}
		if err := unix.Mknodat(to, name, st.Mode, 0); err != nil {
			return fail("create", err)
		}
	default:
		return nil
	}
	if err := unix.Fchownat(to, name, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fail("create", err)
	}
	if err := unix.UtimesNanoAt(to, name, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fail("create", err)
	}
	return nil
}

func (c *Copier) file(ctx context.Context, from, to int, name, path string) error {
	fail := func(op string, err error) error { return &os.PathError{Op: op, Path: path, Err: err} }
	fd, err := unix.Openat(from, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fail("open", err)
	}
	src := os.NewFile(uintptr(fd), path)
	defer src.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fail("stat", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	made, err := unix.Openat(to, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fail("create", err)
	}
	dst := os.NewFile(uintptr(made), path)
	defer dst.Close()
	if err := content(ctx, dst, src, st.Size); err != nil {
		return fail("copy", err)
	}
	if err := c.finish(fd, made, path, &st); err != nil {
		return err
	}
	return dst.Close()
}

// chunk is how much of a file is copied before the context is read again, in bytes.
const chunk = 8 << 20

// content copies the size that the file had: one that grows meanwhile has an end.
func content(ctx context.Context, dst, src *os.File, size int64) error {
	if size == 0 || unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())) == nil {
		return nil
	}
	for size > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := io.CopyN(dst, src, min(size, chunk)) // copy_file_range(2)
		size -= n
		if errors.Is(err, io.EOF) {
			return nil // it became shorter
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// finish gives a file or directory the attributes of another one. The mode is last: a change of the
// owner clears bits of it.
func (c *Copier) finish(from, to int, path string, st *unix.Stat_t) error {
	fail := func(op string, err error) error { return &os.PathError{Op: op, Path: path, Err: err} }
	if err := c.attributes(from, to); err != nil {
		return fail("copy the attributes of", err)
	}
	if err := unix.Fchown(to, int(st.Uid), int(st.Gid)); err != nil {
		return fail("chown", err)
	}
	if err := unix.Fchmod(to, st.Mode&0o7777); err != nil {
		return fail("chmod", err)
	}
	if err := unix.UtimesNanoAt(to, "", []unix.Timespec{st.Atim, st.Mtim}, unix.AT_EMPTY_PATH); err != nil {
		return fail("set the times of", err)
	}
	return nil
}

// maxAttributes is the largest list of names, and the largest value, of extended attributes
// (xattr(7)).
const maxAttributes = 64 << 10

func (c *Copier) attributes(from, to int) error {
	if c.Attr == nil {
		return nil
	}
	n, err := unix.Flistxattr(from, nil)
	if errors.Is(err, unix.ENOTSUP) || err == nil && n == 0 {
		return nil
	}
	buf := make([]byte, maxAttributes)
	if err == nil {
		n, err = unix.Flistxattr(from, buf)
	}
	if err != nil {
		return err
	}
	for _, name := range strings.Split(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00") {
		if !c.Attr(name) {
			continue
		}
		n, err := unix.Fgetxattr(from, name, buf)
		if errors.Is(err, unix.ENODATA) {
			continue
		}
		if err == nil {
			err = unix.Fsetxattr(to, name, buf[:n], 0)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
