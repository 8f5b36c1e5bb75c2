package lfs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"golang.org/x/sys/unix"

	"polis/daemon/host/walk"
)

// ErrContent: the content of an object is not what its name says.
var ErrContent = errors.New("its content is not that of its name")

// ErrHoles: an object is mostly holes, which a copy would fill: they cost who made it nothing.
var ErrHoles = errors.New("it is mostly holes")

// sparseFrom is the size in bytes from which holes count.
const sparseFrom = 1 << 20

// maxObjects bounds what List reads.
const maxObjects = 1_000_000

// chunk is how much is copied before the context is read again, in bytes.
const chunk = 4 << 20

func open(dir *os.File, name string, flags uint64, mode uint64) (*os.File, error) {
	return walk.Inside(dir, name, unix.OpenHow{Flags: flags, Mode: mode})
}

// Has reports whether a directory of objects has the one of a pointer, as a regular file of its size.
func Has(dir *os.File, p Pointer) (bool, error) {
	f, err := open(dir, Path(p.OID), unix.O_PATH|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	fi, err := f.Stat()
	return err == nil && fi.Mode().IsRegular() && fi.Size() == p.Size, err
}

// List calls each for every object of a directory.
func List(ctx context.Context, dir *os.File, each func(Pointer) error) error {
	seen := 0
	return names(ctx, dir, ".", func(a fs.DirEntry) error {
		if !a.IsDir() || len(a.Name()) != 2 {
			return nil
		}
		return names(ctx, dir, a.Name(), func(b fs.DirEntry) error {
			at := path.Join(a.Name(), b.Name())
			if !b.IsDir() || len(b.Name()) != 2 {
				return nil
			}
			return names(ctx, dir, at, func(o fs.DirEntry) error {
				if !isOID(o.Name()) || Path(o.Name()) != path.Join(at, o.Name()) || !o.Type().IsRegular() {
					return nil
				}
				if seen++; seen > maxObjects {
					return fmt.Errorf("there are more than %d objects of Git LFS", maxObjects)
				}
				var st unix.Stat_t
				err := unix.Fstatat(int(dir.Fd()), Path(o.Name()), &st, unix.AT_SYMLINK_NOFOLLOW)
				if errors.Is(err, unix.ENOENT) {
					return nil
				}
				if err != nil {
					return &os.PathError{Op: "stat", Path: o.Name(), Err: err}
				}
				return each(Pointer{OID: o.Name(), Size: st.Size})
			})
		})
	})
}

func names(ctx context.Context, dir *os.File, name string, each func(fs.DirEntry) error) error {
	d, err := open(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	for {
		list, err := d.ReadDir(1024)
		for _, e := range list {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := each(e); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Copy copies the object of a pointer from one directory of objects to another, unless it is there. It is there under
// its name only when all of it is, and its sum is that name; else the error is ErrContent, or ErrHoles. fs.ErrNotExist: from has none.
// New files and directories have the modes of the directory to, without the right to execute or search where files
// are concerned.
func Copy(ctx context.Context, from, to *os.File, p Pointer) (err error) {
	fail := func(err error) error { return fmt.Errorf("copy the object %s: %w", p.OID, err) }
	if !isOID(p.OID) {
		return fail(fs.ErrInvalid)
	}
	if has, err := Has(to, p); has || err != nil {
		return err
	}
	src, err := open(from, Path(p.OID), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return fail(err)
	}
	defer src.Close()
	fi, err := src.Stat()
	if err != nil {
		return fail(err)
	}
	if !fi.Mode().IsRegular() || fi.Size() != p.Size {
		return fail(ErrContent)
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); !ok || p.Size > sparseFrom && st.Blocks*512 < p.Size/4 {
		return fail(ErrHoles)
	}
	top, err := to.Stat()
	if err != nil {
		return fail(err)
	}
	perm := uint32(top.Mode().Perm())
	for _, d := range []string{p.OID[:2], path.Join(p.OID[:2], p.OID[2:4])} {
		if err := unix.Mkdirat(int(to.Fd()), d, perm); err != nil && !errors.Is(err, unix.EEXIST) {
			return fail(err)
		}
	}
	dir, err := open(to, path.Dir(Path(p.OID)), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return fail(err)
	}
	defer dir.Close()
	tmp := "." + p.OID + ".polis"
	if err := unix.Unlinkat(int(dir.Fd()), tmp, 0); err != nil && !errors.Is(err, unix.ENOENT) { // of a crash
		return fail(err)
	}
	dst, err := open(dir, tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, uint64(perm&0o666))
	if err != nil {
		return fail(err)
	}
	defer dst.Close()
	err = content(ctx, dst, src, p)
	if err == nil {
		err = unix.Renameat(int(dir.Fd()), tmp, int(dir.Fd()), p.OID)
	}
	if err != nil {
		return fail(errors.Join(err, unix.Unlinkat(int(dir.Fd()), tmp, 0)))
	}
	return nil
}

// content copies the bytes of an object and compares their sum.
func content(ctx context.Context, dst, src *os.File, p Pointer) error {
	sum := sha256.New()
	for rest := p.Size; rest > 0; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := io.CopyN(io.MultiWriter(dst, sum), src, min(rest, chunk))
		rest -= n
		if errors.Is(err, io.EOF) {
			return ErrContent // it became shorter
		}
		if err != nil {
			return err
		}
	}
	if hex.EncodeToString(sum.Sum(nil)) != p.OID {
		return ErrContent
	}
	return dst.Sync()
}
