package cage

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What a rule on a directory allows, and of it what a rule on a file can
// (landlock(7): others are EINVAL there).
const (
	writeFile = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	writeDir  = writeFile | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SYM |
		unix.LANDLOCK_ACCESS_FS_REFER
	// Nothing in a cage has to make these, or to talk to a device.
	never = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	handled = unix.LANDLOCK_ACCESS_FS_EXECUTE | writeDir | never
)

// ruleset is a Landlock ruleset that is being made.
type ruleset struct {
	fd      int
	handled uint64
}

// newRuleset makes one that forbids all this kernel knows how to forbid.
func newRuleset() (*ruleset, error) {
	abi, err := landlockABI()
	if err != nil {
		return nil, err
	}
	attr := unix.LandlockRulesetAttr{Access_fs: handled}
	if abi < 5 {
		attr.Access_fs &^= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if abi < 3 {
		attr.Access_fs &^= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi < 2 { // moving a file to another directory is then always refused
		attr.Access_fs &^= unix.LANDLOCK_ACCESS_FS_REFER
	}
	size := unsafe.Sizeof(attr.Access_fs)
	if abi >= 4 {
		attr.Access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		size += unsafe.Sizeof(attr.Access_net)
	}
	if abi >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		size += unsafe.Sizeof(attr.Scoped)
	}
	fd, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if e != 0 {
		return nil, fmt.Errorf("%w: landlock_create_ruleset: %w", ErrUnavailable, e)
	}
	return &ruleset{fd: int(fd), handled: attr.Access_fs}, nil // O_CLOEXEC, always
}

// landlockABI is the version of the kernel's Landlock; there is one since 5.13.
func landlockABI() (int, error) {
	abi, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 {
		return 0, fmt.Errorf("%w: the kernel has no Landlock, or it is not among its lsm=: %w", ErrUnavailable, e)
	}
	return int(abi), nil
}

func (r *ruleset) close() { unix.Close(r.fd) }

// program allows to execute one file and the loader that it names.
func (r *ruleset) program(path string) error {
	loader, err := loaderOf(path)
	if err != nil {
		return err
	}
	for _, p := range []string{path, loader} {
		if p == "" {
			continue
		}
		fd, err := unix.Open(p, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return &os.PathError{Op: "allow to execute", Path: p, Err: err}
		}
		err = r.add(fd, unix.LANDLOCK_ACCESS_FS_EXECUTE)
		unix.Close(fd)
		if err != nil {
			return &os.PathError{Op: "allow to execute", Path: p, Err: err}
		}
	}
	return nil
}

// write allows to write at and below path.
func (r *ruleset) write(path string) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "allow to write", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &os.PathError{Op: "allow to write", Path: path, Err: err}
	}
	allow := uint64(writeFile)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return nil
	case unix.S_IFDIR:
		allow = writeDir
	}
	if err := r.add(fd, allow); err != nil {
		return &os.PathError{Op: "allow to write", Path: path, Err: err}
	}
	return nil
}

func (r *ruleset) add(fd int, allow uint64) error {
	attr := unix.LandlockPathBeneathAttr{Allowed_access: allow & r.handled, Parent_fd: int32(fd)}
	if _, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.fd), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0); e != 0 {
		return e
	}
	return nil
}

// restrict puts the calling thread under the rules.
func (r *ruleset) restrict() error {
	if _, _, e := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(r.fd), 0, 0); e != 0 {
		return fmt.Errorf("%w: landlock_restrict_self: %w", ErrUnavailable, e)
	}
	return nil
}
