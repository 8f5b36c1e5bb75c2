package storedtree

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"strings"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Hash is the SHA-256 of a content.
type Hash = [32]byte

// Entry is one object of the tree.
type Entry struct {
	// Path is relative to the tree, with slashes; its directory comes before it.
	Path string
	// Type is unix.S_IFREG, S_IFDIR or S_IFLNK.
	Type uint32
	// Mode is the permission bits.
	Mode uint32
	// Hash and Size are of the content of a file or the target of a link.
	Hash Hash
	Size int64
}

// Config describes a tree and its mount.
type Config struct {
	Entries []Entry
	// Open opens an object; its content need not be what its name says.
	Open func(Hash) (*os.File, error)
	// UID and GID own everything; RootGID, the group of the top directory, whose mode is RootMode.
	UID, GID, RootGID uint32
	RootMode          uint32
	// Time is the time of all files.
	Time time.Time
	// Mountpoint is a directory; FsName is the source of the mount.
	Mountpoint, FsName string
	// Rules decide what of the tree its readers see; nil: everything.
	Rules Rules
	// Enter, if not nil, calls mount on a thread of another mount namespace, in which Mountpoint is.
	Enter func(mount func() error) error
	// MaxOpen bounds the open files; 0 means 1024.
	MaxOpen int
	Log     *slog.Logger
}

// Rules decide about names and contents. They are called at every operation and can change at any time:
// with them the kernel keeps no name. They must not block.
type Rules interface {
	// Visible reports whether a path exists for the readers.
	Visible(path string, dir bool) bool
	// Read is called when a process opens a file, or reads the target of a link.
	Read(pid uint32, link bool, path string) unix.Errno
	// Forbidden reports whether a file that is open must not be read any more.
	Forbidden(path string) bool
}

// ErrTree reports entries that are no tree.
var ErrTree = errors.New("storedtree: the entries are no tree")

// MaxEntries bounds a tree: the memory for its names.
const MaxEntries = 200_000

// keep is how long the kernel caches names and attributes: nothing changes.
const keep = time.Hour

const nameMax = 255

type node struct {
	path  string // "" for the top
	attr  fuse.Attr
	hash  Hash
	names []fuse.DirEntry // of a directory; "." and ".." are the first two
	at    map[string]uint64
}

// build makes the nodes, by number, from fuse.FUSE_ROOT_ID on.
func build(c *Config) ([]node, error) {
	if len(c.Entries) > MaxEntries {
		return nil, fmt.Errorf("%w: %d files and directories, at most %d can be mounted", ErrTree, len(c.Entries), MaxEntries)
	}
	nodes := make([]node, fuse.FUSE_ROOT_ID, len(c.Entries)+2)
	dirs := map[string]uint64{}
	add := func(name string, e Entry, up uint64) uint64 {
		id := uint64(len(nodes))
		n := node{path: e.Path, hash: e.Hash, attr: fuse.Attr{Ino: id, Size: uint64(e.Size), Blocks: uint64(e.Size+511) / 512, Mode: e.Type | e.Mode&0o7777, Nlink: 1, Blksize: chunk,
			Mtime: uint64(c.Time.Unix()), Atime: uint64(c.Time.Unix()), Ctime: uint64(c.Time.Unix()), Owner: fuse.Owner{Uid: c.UID, Gid: c.GID}}}
		if e.Type == unix.S_IFDIR {
			dirs[name] = id
			n.attr.Size, n.attr.Blocks, n.attr.Nlink = 0, 0, 2
			n.at = map[string]uint64{}
			n.names = []fuse.DirEntry{{Name: ".", Ino: id, Mode: e.Type}, {Name: "..", Ino: up, Mode: e.Type}}
		}
		nodes = append(nodes, n)
		return id
	}
	root := add(".", Entry{Type: unix.S_IFDIR, Mode: c.RootMode}, fuse.FUSE_ROOT_ID)
	nodes[root].attr.Owner.Gid = c.RootGID
	for _, e := range c.Entries {
		base := path.Base(e.Path)
		up, ok := dirs[path.Dir(e.Path)]
		switch {
		case e.Path != path.Clean(e.Path) || strings.HasPrefix(e.Path, "/") || base == "." || base == ".." || len(base) > nameMax || strings.IndexByte(base, 0) >= 0:
			return nil, fmt.Errorf("%w: path %.200q", ErrTree, e.Path)
		case !ok:
			return nil, fmt.Errorf("%w: %.200q has no directory", ErrTree, e.Path)
		case e.Size < 0 || e.Type != unix.S_IFREG && e.Type != unix.S_IFDIR && (e.Type != unix.S_IFLNK || e.Size > unix.PathMax):
			return nil, fmt.Errorf("%w: %.200q has a wrong type or size", ErrTree, e.Path)
		}
		if _, twice := nodes[up].at[base]; twice {
			return nil, fmt.Errorf("%w: %.200q is there twice", ErrTree, e.Path)
		}
		if e.Type == unix.S_IFLNK {
			e.Mode = 0o777
		}
		id := add(e.Path, e, up)
		nodes[up].at[base] = id
		nodes[up].names = append(nodes[up].names, fuse.DirEntry{Name: base, Ino: id, Mode: e.Type})
		if e.Type == unix.S_IFDIR {
			nodes[up].attr.Nlink++
		}
	}
	if c.Rules != nil {
		for i := range nodes {
			nodes[i].attr.Nlink = 1 // a directory has no count of directories that can be hidden
		}
	}
	return nodes, nil
}
