package storedtree

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/conn"
)

const (
	// maxOpen bounds the open files of one mount, and the objects that are logged.
	maxOpen = 1024
	// readers bounds the requests that are handled at the same time.
	readers      = 8
	capabilities = fuse.CAP_ASYNC_READ | fuse.CAP_BIG_WRITES | fuse.CAP_MAX_PAGES | fuse.CAP_READDIRPLUS | fuse.CAP_PARALLEL_DIROPS
)

// FS is a mounted tree.
type FS struct {
	conn.ReadOnly
	cfg   Config
	nodes []node
	conn  *conn.Conn
	known known
	keep  time.Duration // of names and attributes
	done  chan struct{}

	mu   sync.Mutex
	open map[uint64]*handle
	last uint64
	told map[Hash]bool // damaged objects that were logged
}

type handle struct {
	f     *os.File
	parts *parts
	node  *node
}

// Mount mounts a tree and serves it until it is unmounted, by any process.
func Mount(c Config) (*FS, error) {
	nodes, err := build(&c)
	if err != nil {
		return nil, err
	}
	c.Entries = nil
	fs := &FS{cfg: c, nodes: nodes, known: known{of: map[Hash]*parts{}}, open: map[uint64]*handle{}, told: map[Hash]bool{}, done: make(chan struct{})}
	if fs.cfg.MaxOpen <= 0 {
		fs.cfg.MaxOpen = maxOpen
	}
	if c.Rules == nil {
		fs.keep = keep
	}
	fs.conn, err = conn.Mount(fs, conn.Options{Mountpoint: c.Mountpoint, Enter: c.Enter, FsName: c.FsName, Subtype: "polis-snapshot", MaxWrite: chunk, MaxBackground: 16, Readers: readers,
		Flags: unix.MS_RDONLY | unix.MS_NOEXEC, Capabilities: capabilities, Log: c.Log, OnPanic: func(v any) { c.Log.Error("request for a snapshot not served", "panic", v) }})
	if err != nil {
		return nil, fmt.Errorf("storedtree: %w", err)
	}
	go func() {
		if err := fs.conn.Serve(); err != nil {
			c.Log.Error("snapshot is not served", "err", err)
		}
		fs.closeAll()
		close(fs.done)
	}()
	return fs, nil
}

// Done is closed when the tree is not mounted any more and none of its files is open.
func (fs *FS) Done() <-chan struct{} { return fs.done }

// Wait returns when the tree is not mounted any more, or ctx ends.
func (fs *FS) Wait(ctx context.Context) error {
	select {
	case <-fs.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("storedtree: unmounted, but still in use: %w", context.Cause(ctx))
	}
}

func (fs *FS) closeAll() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for id, h := range fs.open {
		h.f.Close()
		delete(fs.open, id)
	}
}

// node returns the node of a number that the kernel gave; nil for one that is hidden.
func (fs *FS) node(id uint64) *node {
	if id < fuse.FUSE_ROOT_ID || id >= uint64(len(fs.nodes)) || !fs.visible(&fs.nodes[id]) {
		return nil
	}
	return &fs.nodes[id]
}

func (fs *FS) entry(id uint64, out *fuse.EntryOut) {
	out.NodeId, out.Generation, out.Attr = id, 1, fs.nodes[id].attr
	out.SetEntryTimeout(fs.keep)
	out.SetAttrTimeout(fs.keep)
}

// Lookup lets the kernel cache also that a name does not exist.
func (fs *FS) Lookup(_ *conn.Call, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	n := fs.node(h.NodeId)
	if n == nil || n.at == nil {
		return fuse.Status(unix.ESTALE)
	}
	id, ok := n.at[name]
	switch {
	case fs.cfg.Rules != nil && (!ok || !fs.visible(&fs.nodes[id])):
		return fuse.ENOENT
	case !ok:
		out.SetEntryTimeout(keep)
		return fuse.OK
	}
	fs.entry(id, out)
	return fuse.OK
}

// Forget has nothing to forget: the nodes stay.
func (*FS) Forget(uint64, uint64) {}

// GetAttr returns the attributes.
func (fs *FS) GetAttr(_ *conn.Call, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	n := fs.node(in.NodeId)
	if n == nil {
		return fuse.Status(unix.ESTALE)
	}
	out.Attr = n.attr
	out.SetTimeout(fs.keep)
	return fuse.OK
}

// Readlink returns the target of a link, verified.
func (fs *FS) Readlink(_ *conn.Call, h *fuse.InHeader, dest []byte) (int, fuse.Status) {
	n := fs.node(h.NodeId)
	if n == nil || n.attr.Mode&unix.S_IFMT != unix.S_IFLNK {
		return 0, fuse.EINVAL
	}
	if e := fs.mayRead(h.Pid, n); e != 0 {
		return 0, fuse.Status(e)
	}
	x, s := fs.verified(n)
	if !s.Ok() {
		return 0, s
	}
	defer x.f.Close()
	k, err := x.parts.read(x.f, dest, 0)
	return k, fs.status(n.hash, err)
}

// Open verifies the content.
func (fs *FS) Open(_ *conn.Call, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n := fs.node(in.NodeId)
	if n == nil || n.attr.Mode&unix.S_IFMT != unix.S_IFREG {
		return fuse.EINVAL
	}
	if in.Flags&unix.O_ACCMODE != unix.O_RDONLY || in.Flags&unix.O_TRUNC != 0 {
		return fuse.EROFS
	}
	if e := fs.mayRead(in.Pid, n); e != 0 {
		return fuse.Status(e)
	}
	h, s := fs.verified(n)
	if !s.Ok() {
		return s
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if len(fs.open) >= fs.cfg.MaxOpen {
		h.f.Close()
		return fuse.Status(unix.ENFILE)
	}
	fs.last++
	fs.open[fs.last] = h
	if fs.cfg.Rules != nil && fs.cfg.Rules.Forbidden(n.path) { // RulesChanged has not seen it
		delete(fs.open, fs.last)
		h.f.Close()
		return fuse.EACCES
	}
	out.Fh, out.OpenFlags = fs.last, fuse.FOPEN_KEEP_CACHE
	return fuse.OK
}

// verified opens the content of a node and compares it with its hash, unless it was compared before:
// then the reads compare what they read.
func (fs *FS) verified(n *node) (*handle, fuse.Status) {
	f, err := fs.cfg.Open(n.hash)
	if err != nil {
		return nil, fs.status(n.hash, err)
	}
	p := fs.known.get(n.hash)
	if p == nil || p.size != int64(n.attr.Size) {
		if p, err = verify(f, n.hash, int64(n.attr.Size)); err != nil {
			f.Close()
			return nil, fs.status(n.hash, err)
		}
		fs.known.put(n.hash, p)
	}
	return &handle{f: f, parts: p, node: n}, fuse.OK
}

// status returns the errno for an error: EIO for anything but a lack of open files. Each object is
// logged once.
func (fs *FS) status(h Hash, err error) fuse.Status {
	var e syscall.Errno
	switch {
	case err == nil:
		return fuse.OK
	case errors.As(err, &e) && (e == unix.EMFILE || e == unix.ENFILE || e == unix.ENOMEM):
		return fuse.Status(unix.ENFILE)
	}
	fs.mu.Lock()
	first := !fs.told[h] && len(fs.told) < maxOpen
	if first {
		fs.told[h] = true
	}
	fs.mu.Unlock()
	if first {
		fs.cfg.Log.Error("stored content of a mounted snapshot not served", slog.String("path", fmt.Sprintf("%x", h)), slog.Any("err", err))
	}
	return fuse.EIO
}

func (fs *FS) handle(id uint64) *handle {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.open[id]
}

// Read returns verified bytes, or EIO.
func (fs *FS) Read(_ *conn.Call, in *fuse.ReadIn, dest []byte) (int, fuse.Status) {
	h := fs.handle(in.Fh)
	if h == nil {
		return 0, fuse.EBADF
	}
	if fs.cfg.Rules != nil && fs.cfg.Rules.Forbidden(h.node.path) {
		return 0, fuse.EACCES
	}
	n, err := h.parts.read(h.f, dest, int64(in.Offset))
	return n, fs.status(h.node.hash, err)
}

// Release closes a file. The kernel has ended its reads.
func (fs *FS) Release(_ *conn.Call, in *fuse.ReleaseIn) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if h := fs.open[in.Fh]; h != nil {
		h.f.Close()
		delete(fs.open, in.Fh)
	}
}

// StatFs reports a full file system.
func (fs *FS) StatFs(_ *conn.Call, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	out.Bsize, out.Frsize, out.NameLen = chunk, chunk, nameMax
	if fs.cfg.Rules == nil {
		out.Files = uint64(len(fs.nodes) - fuse.FUSE_ROOT_ID)
	}
	return fuse.OK
}

var _ conn.FileSystem = (*FS)(nil)
