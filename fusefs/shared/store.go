package shared

import (
	"context"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// StoreName is the name in a view's root at which pnpm finds its store: the one
// it chooses by itself on a file system that is not the home directory's.
const StoreName = ".pnpm-store"

const (
	// mark distinguishes a shared inode from a file that merely has several
	// names. Only root can set or read it.
	mark = "trusted.polis.store"
	// maxContent bounds a file that is shared, in bytes.
	maxContent = 1 << 30
)

// contentName is a file of pnpm's store since version 3 of its layout:
// v10/files/<2 hex>/<126 hex>, with "-exec" for programs. The digits are the
// SHA-512 of the content.
var contentName = regexp.MustCompile(`^` + regexp.QuoteMeta(StoreName) + `/v[0-9]+/files/([0-9a-f]{2})/([0-9a-f]{126})(?:-exec)?$`)

// Store keeps content under its hash: one inode for all agents of a workspace.
// The directory belongs to root and is in no sandbox.
type Store struct{ dir int }

// OpenStore opens the directory, and makes it if it is not there. Close gives
// back the descriptor.
func OpenStore(path string) (*Store, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("shared: store: %w", err)
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("shared: store %s: %w", path, err)
	}
	return &Store{dir: fd}, nil
}

// Close releases the descriptor.
func (s *Store) Close() error { return unix.Close(s.dir) }

// Shareable reports whether a path of the view is one whose content can be shared.
func (*Store) Shareable(path string) bool {
	return strings.HasPrefix(path, StoreName+"/") && contentName.MatchString(path)
}

// Marked reports whether the object behind a descriptor, O_PATH or not, is one of a store's. An
// error counts as one: the cost is a copy.
func (*Store) Marked(fd int) bool {
	_, err := unix.Getxattr("/proc/self/fd/"+strconv.Itoa(fd), mark, nil)
	return !errors.Is(err, unix.ENODATA) && !errors.Is(err, unix.EOPNOTSUPP)
}

// Admit returns an O_PATH descriptor of the shared inode with the content, owner
// and permissions of the file behind the descriptor content, which lies at path
// in a view; the caller closes it. If there is none yet it is made, as a copy.
// ErrContent means that the file is not what path says.
func (s *Store) Admit(ctx context.Context, path string, content int) (int, error) {
	m := contentName.FindStringSubmatch(path)
	if m == nil {
		return -1, ErrKind
	}
	var st unix.Stat_t
	if err := unix.Fstat(content, &st); err != nil {
		return -1, fmt.Errorf("shared: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&0o7000 != 0 || st.Size > maxContent {
		return -1, ErrKind
	}
	// Permissions and owner are part of what is shared.
	name := fmt.Sprintf("%s-%o-%d-%d", m[2], st.Mode&0o777, st.Uid, st.Gid)
	err := unix.Mkdirat(s.dir, m[1], 0o700)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, fmt.Errorf("shared: store: %w", err)
	}
	dir, err := unix.Openat(s.dir, m[1], unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("shared: store: %w", err)
	}
	defer unix.Close(dir)
	have, err := s.find(dir, name, st.Size)
	if err != nil {
		return -1, err
	}
	if have >= 0 {
		if err := check(ctx, m[1]+m[2], content, io.Discard); err != nil {
			return -1, errors.Join(err, unix.Close(have))
		}
		return have, nil
	}
	return s.add(ctx, dir, name, m[1]+m[2], content, &st)
}

// find opens a shared inode. One of another size was cut off by a crash of the
// machine and is taken away.
func (s *Store) find(dir int, name string, size int64) (int, error) {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return -1, nil
	}
	if err != nil {
		return -1, fmt.Errorf("shared: store: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err == nil && st.Size == size && s.Marked(fd) {
		return fd, nil
	}
	if err := errors.Join(unix.Close(fd), unix.Unlinkat(dir, name, 0)); err != nil {
		return -1, fmt.Errorf("shared: store: %w", err)
	}
	return -1, nil
}

// add copies content into a file without a name, and gives it its name when the
// copy has the hash that it must have.
func (s *Store) add(ctx context.Context, dir int, name, hash string, content int, st *unix.Stat_t) (int, error) {
	tmp, err := unix.Openat(dir, ".", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return -1, fmt.Errorf("shared: store: %w", err)
	}
	f := os.NewFile(uintptr(tmp), name)
	defer f.Close()
	if err := check(ctx, hash, content, f); err != nil {
		return -1, err
	}
	err = errors.Join(unix.Fchown(tmp, int(st.Uid), int(st.Gid)), unix.Fchmod(tmp, st.Mode&0o777),
		unix.Fsetxattr(tmp, mark, []byte(hash), 0),
		unix.Futimes(tmp, []unix.Timeval{unix.NsecToTimeval(st.Atim.Nano()), unix.NsecToTimeval(st.Mtim.Nano())}))
	if err != nil {
		return -1, fmt.Errorf("shared: store: %w", err)
	}
	err = unix.Linkat(tmp, "", dir, name, unix.AT_EMPTY_PATH)
	if err != nil && !errors.Is(err, unix.EEXIST) { // EEXIST: another agent was faster
		return -1, fmt.Errorf("shared: store: %w", err)
	}
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("shared: store: %w", err)
	}
	return fd, nil
}

// check copies content to w and compares its hash.
func check(ctx context.Context, hash string, content int, w io.Writer) error {
	h := sha512.New()
	buf := make([]byte, 128<<10)
	for off := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := unix.Pread(content, buf, off)
		if err != nil {
			return fmt.Errorf("shared: read: %w", err)
		}
		if n == 0 {
			break
		}
		if off += int64(n); off > maxContent {
			return ErrKind
		}
		h.Write(buf[:n])
		if _, err := w.Write(buf[:n]); err != nil {
			return fmt.Errorf("shared: store: %w", err)
		}
	}
	if hex.EncodeToString(h.Sum(nil)) != hash {
		return ErrContent
	}
	return nil
}
