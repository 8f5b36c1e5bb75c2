package pinned

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// ErrChanged reports that another directory is at the recorded path, or that another user could put one there.
var ErrChanged = errors.New("the project is not the recorded one")

// Record is the recorded identity of a project's directory.
type Record struct {
	Path string `json:"path"` // absolute, without symbolic links
	// Named is the absolute path by which the owner named it, if that has symbolic links. It is never opened.
	Named string `json:"named,omitempty"`
	UID   uint32 `json:"uid"` // its owner
	GID   uint32 `json:"gid"` // its group
	Dir   Entry  `json:"dir"`
	Git   *Entry `json:"git,omitempty"` // its .git; nil: it has none
}

// Entry identifies one file or directory.
type Entry struct {
	Type   uint32 `json:"type"`             // S_IFMT of inode(7)
	Inode  uint64 `json:"inode,omitempty"`  // 0: the file system has no lasting numbers
	Device uint64 `json:"device"`           // means something in the same boot only
	Mount  uint64 `json:"mount,omitempty"`  // STATX_MNT_ID_UNIQUE of statx(2); 0 if the kernel has none
	Handle string `json:"handle,omitempty"` // of name_to_handle_at(2), type and bytes; "" if the file system has none
	Boot   string `json:"boot"`             // boot_id of random(4), for Device and Mount
}

// Take records the directory path, which must contain no symbolic link, as it is now. Its owner must own, or root,
// each directory above it.
func Take(path string) (Record, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return Record{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	dir, err := openDir(path, st.Uid)
	if err != nil {
		return Record{}, err
	}
	defer dir.Close()
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return Record{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	r := Record{Path: path, UID: st.Uid, GID: st.Gid}
	if r.Dir, err = entryOf(int(dir.Fd()), ""); err != nil {
		return Record{}, err
	}
	r.Git, err = gitOf(dir)
	return r, err
}

// gitOf returns the identity of the .git of a directory; nil if there is none.
func gitOf(dir *os.File) (*Entry, error) {
	e, err := entryOf(int(dir.Fd()), ".git")
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &e, nil
}

// Open returns a descriptor of the recorded directory. The error is ErrChanged if another one is at its path, or if
// its owner has changed, or if it has another .git. The caller closes the descriptor.
func (r Record) Open() (*os.File, error) {
	dir, err := r.OpenDir()
	if err != nil {
		return nil, err
	}
	if err := r.sameGit(dir); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}

// OpenDir is Open for a caller that does not use the project's .git.
func (r Record) OpenDir() (*os.File, error) {
	if r.Path == "" {
		return nil, fmt.Errorf("%w: nothing is recorded", ErrChanged)
	}
	dir, err := openDir(r.Path, r.UID)
	if err != nil {
		return nil, err
	}
	if err := r.sameDir(dir); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}

// Check reports what Open does.
func (r Record) Check() error {
	dir, err := r.Open()
	if err != nil {
		return err
	}
	return dir.Close()
}

// Refreshed is the record with the device and the mount of the present boot. The caller has called Open.
func (r Record) Refreshed() (Record, error) {
	dir, err := r.Open()
	if err != nil {
		return r, err
	}
	defer dir.Close()
	if r.Dir, err = entryOf(int(dir.Fd()), ""); err != nil {
		return r, err
	}
	r.Git, err = gitOf(dir)
	return r, err
}

func (r Record) sameDir(dir *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return &os.PathError{Op: "stat", Path: r.Path, Err: err}
	}
	if st.Uid != r.UID {
		return fmt.Errorf("%w: %s belongs to uid %d, and belonged to uid %d", ErrChanged, r.Path, st.Uid, r.UID)
	}
	now, err := entryOf(int(dir.Fd()), "")
	if err != nil {
		return err
	}
	if !r.Dir.same(now) {
		return fmt.Errorf("%w: another directory is at %s", ErrChanged, r.Path)
	}
	return nil
}

func (r Record) sameGit(dir *os.File) error {
	now, err := gitOf(dir)
	switch {
	case err != nil:
		return err
	case r.Git == nil && now == nil:
		return nil
	case r.Git == nil:
		return nil // one that appears is not used until a person adopts it
	case now == nil:
		return fmt.Errorf("%w: %s/.git does not exist any more", ErrChanged, r.Path)
	case !r.Git.same(*now):
		return fmt.Errorf("%w: another .git is in %s", ErrChanged, r.Path)
	}
	return nil
}

// same compares what is comparable. Each boot numbers devices again, and a file system that is mounted again
// can have another device: only inode and handle count then.
func (e Entry) same(now Entry) bool {
	if e.Type != now.Type {
		return false
	}
	if e.Boot != "" && e.Boot == now.Boot && e.Mount == now.Mount && e.Device != now.Device {
		return false
	}
	return e.Inode == now.Inode && e.Handle == now.Handle
}

// entryOf identifies name in the directory at, without following a link; at itself if name is "".
func entryOf(at int, name string) (Entry, error) {
	flags := unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	var st unix.Stat_t
	if err := unix.Fstatat(at, name, &st, flags); err != nil {
		return Entry{}, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	e := Entry{Type: st.Mode & unix.S_IFMT, Inode: st.Ino, Device: st.Dev, Boot: bootID()}
	var stx unix.Statx_t
	if err := unix.Statx(at, name, flags, unix.STATX_MNT_ID_UNIQUE, &stx); err == nil && stx.Mask&unix.STATX_MNT_ID_UNIQUE != 0 {
		e.Mount = stx.Mnt_id
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(at, &fs); err != nil {
		return Entry{}, &os.PathError{Op: "statfs", Path: name, Err: err}
	}
	if unnumbered[uint32(fs.Type)] {
		e.Inode = 0
	} else if h, _, err := unix.NameToHandleAt(at, name, flags&unix.AT_EMPTY_PATH); err == nil {
		e.Handle = fmt.Sprintf("%d:%s", h.Type(), hex.EncodeToString(h.Bytes()))
	}
	return e, nil
}

// unnumbered are file systems in which a file can have another inode number when the kernel reads it again. Of a
// directory there, only the path and the owner are compared.
var unnumbered = map[uint32]bool{unix.OVERLAYFS_SUPER_MAGIC: true, unix.FUSE_SUPER_MAGIC: true, v9fs: true, vboxsf: true}

const (
	v9fs   = 0x01021997 // linux/magic.h
	vboxsf = 0x786f4256 // fs/vboxsf
)

// bootID identifies the present boot.
var bootID = sync.OnceValue(func() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "" // never compared: see same
	}
	return strings.TrimSpace(string(b))
})
