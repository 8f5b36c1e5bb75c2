package upper

import (
	"context"
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"polis/fusefs"
)

// Inner is the guard of the merged tree. It must allow everything to be published.
type Inner interface {
	fusefs.Guard
	fusefs.CacheableGuard
	fusefs.SkipsPublish
	fusefs.ObjectCounter
	fusefs.Mover
}

// Tree is the merged tree.
type Tree interface {
	// IsDir reports whether the path is a directory. A missing path is none.
	IsDir(path string) (bool, error)
}

// Guard is the guard of a view that is an upper layer (fusefs.Config.Work).
type Guard struct {
	Inner

	recorder fusefs.Recorder // Inner, if it is one
	tree     Tree
	work     int
}

var (
	_ Inner           = (*Guard)(nil)
	_ fusefs.Recorder = (*Guard)(nil)
)

// New makes a guard above inner. It duplicates work, a descriptor of the work directory. Close closes
// the duplicate, and does not close inner.
func New(inner Inner, tree Tree, work int) (*Guard, error) {
	if !inner.PublishesAll() {
		return nil, fmt.Errorf("%w: the guard of the tree checks what is published", fusefs.ErrConfig)
	}
	fd, err := unix.FcntlInt(uintptr(work), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("upper: duplicate the work directory: %w", err)
	}
	g := &Guard{Inner: inner, tree: tree, work: fd}
	g.recorder, _ = inner.(fusefs.Recorder)
	return g, nil
}

// Close closes the guard's descriptor. The guard must not be used afterwards.
func (g *Guard) Close() error { return unix.Close(g.work) }

// Visible implements fusefs.Guard.
func (g *Guard) Visible(path string, dir bool) bool {
	return fusefs.InWork(path) || g.Inner.Visible(path, dir)
}

// Read implements fusefs.Guard.
func (g *Guard) Read(ctx context.Context, c fusefs.Caller, op fusefs.Op, path string) syscall.Errno {
	if fusefs.InWork(path) {
		return 0
	}
	return g.Inner.Read(ctx, c, op, path)
}

// Write implements fusefs.Guard.
func (g *Guard) Write(ctx context.Context, c fusefs.Caller, op fusefs.Op, targets ...fusefs.Target) (fusefs.Ticket, syscall.Errno) {
	asked, about, errno := g.meaning(op, targets)
	switch {
	case errno != 0:
		return nil, errno
	case asked == nothing:
		return noTicket{}, 0
	}
	return g.Inner.Write(ctx, c, asked, about...)
}

// Route implements fusefs.Guard.
func (g *Guard) Route(path string) int {
	if fusefs.InWork(path) {
		return 0
	}
	return g.Inner.Route(path)
}

// Xattr implements fusefs.Guard.
func (g *Guard) Xattr(path, name string) ([]byte, bool) {
	if fusefs.InWork(path) {
		return nil, false
	}
	return g.Inner.Xattr(path, name)
}

// CachedVerdict implements fusefs.CacheableGuard.
func (g *Guard) CachedVerdict(path string, dir bool) fusefs.CachedVerdict {
	if fusefs.InWork(path) {
		return fusefs.Shown | fusefs.Readable
	}
	return g.Inner.CachedVerdict(path, dir)
}

// Watched implements fusefs.Mover.
func (g *Guard) Watched(targets []fusefs.Target) bool {
	for _, t := range targets {
		if fusefs.InWork(t.Path) {
			return false
		}
	}
	return g.Inner.Watched(targets)
}

// copied reports whether an object of the work directory is a copy of one below: the overlay notes
// the original in an attribute. Without the attribute it is taken for a new object.
func (g *Guard) copied(path string) bool {
	rel := strings.TrimPrefix(path, fusefs.WorkPrefix+"/")
	fd, err := unix.Openat2(g.work, rel, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	_, err = unix.Getxattr(fmt.Sprintf("/proc/self/fd/%d", fd), "trusted.overlay.origin", nil)
	return err == nil
}

// noTicket is the ticket of what needs no decision.
type noTicket struct{}

// Done implements fusefs.Ticket.
func (noTicket) Done() {}
