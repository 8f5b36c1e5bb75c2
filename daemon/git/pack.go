package git

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"polis/daemon/host/cage"
	"polis/fusefs/fdtree"
)

// packLimits allow git to index packs of some ten million objects, or of gigabytes, one object
// after the other.
var packLimits = cage.Limits{AddressSpace: 4 << 30, FileSize: 4 << 30, CPU: 15 * time.Minute}

// maxIndex is the largest index file that is read back, in bytes.
const maxIndex = 4 << 30

// IndexPack runs git to resolve and hash every object of a pack without a repository, and returns
// the SHA-256 sums of the index and of the reverse index. format is "sha1" or "sha256". pack is
// open read-only and belongs to the Runner's user. scratch is a directory that only the caller can
// search, so that no other user reaches the files in it.
func (r *Runner) IndexPack(ctx context.Context, pack *os.File, format, scratch string) (idx, rev [32]byte, err error) {
	dir, err := os.MkdirTemp(scratch, "pack-")
	if err != nil {
		return idx, rev, fmt.Errorf("index a pack: %w", err)
	}
	defer func() {
		if rm := fdtree.Cleanup(dir); rm != nil {
			err = errors.Join(err, fmt.Errorf("index a pack: %w", rm))
		}
	}()
	if os.Geteuid() == 0 {
		if err := os.Lchown(dir, int(r.UID), int(r.GID)); err != nil {
			return idx, rev, fmt.Errorf("index a pack: %w", err)
		}
	}
	d, err := os.Open(dir)
	if err != nil {
		return idx, rev, fmt.Errorf("index a pack: %w", err)
	}
	defer d.Close()
	limits := packLimits
	_, err = r.Run(ctx, Cmd{
		// Paths of descriptors: the user can search neither directory.
		Args:  []string{"index-pack", "--object-format=" + format, "--threads=1", "--rev-index", "-o", "/proc/self/fd/3/p.idx", "/proc/self/fd/0"},
		Dir:   "/",
		Stdin: pack, Files: []*os.File{d}, Write: []string{dir}, Limits: &limits, Timeout: copyTimeout,
		Env:    []string{"GIT_CEILING_DIRECTORIES=/"},
		Config: []string{"core.bigFileThreshold=16m", "core.deltaBaseCacheLimit=64m"},
	})
	if err != nil {
		return idx, rev, err
	}
	if idx, err = sum(filepath.Join(dir, "p.idx")); err != nil {
		return idx, rev, err
	}
	rev, err = sum(filepath.Join(dir, "p.rev"))
	return idx, rev, err
}

func sum(path string) (out [32]byte, err error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return out, fmt.Errorf("read the index of the pack: %w", err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, maxIndex+1))
	if err == nil && n > maxIndex {
		err = ErrTooLarge
	}
	if err != nil {
		return out, fmt.Errorf("read the index of the pack: %w", err)
	}
	return [32]byte(h.Sum(nil)), nil
}
