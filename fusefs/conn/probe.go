package conn

import (
	"path/filepath"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Go's runtime adds every file it opens to an epoll set, by a system call during which its
// processor is not handed to another thread. For a file in a mount that the same program serves,
// the kernel sends POLL within that call, and with all processors in it no thread is left to
// answer. One ENOSYS permanently disables POLL for the mount, so Probe provokes it before any
// other program can use the mount: on a file that does not exist on the backing side, with calls
// that do hand the processor on.

// probeNode is the number of the unreal file.
const probeNode = ^uint64(0)

func probeEntry() fuse.EntryOut {
	return fuse.EntryOut{NodeId: probeNode, Generation: 1, Attr: probeAttr()}
}

func probeAttr() fuse.Attr { return fuse.Attr{Ino: probeNode, Mode: unix.S_IFREG | 0o400, Nlink: 1} }

// Probe permanently disables POLL for the mount. The readers must run.
func (c *Conn) Probe() error {
	c.probing.Store(true)
	defer c.probing.Store(false)
	fd, err := open(filepath.Join(c.opts.Mountpoint, c.probe), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = poll(fd, unix.POLLIN, 0)
	return err
}

// answerProbe handles requests for the unreal file.
func answerProbe(r *reader, q *query) (int, fuse.Status) {
	switch q.header.Opcode {
	case opGetattr:
		out, n := body[fuse.AttrOut](r)
		out.Attr = probeAttr()
		return n, fuse.OK
	case opOpen:
		_, n := body[fuse.OpenOut](r)
		return n, fuse.OK
	case opRelease, opForget:
		return 0, fuse.OK
	case opPoll:
		return 0, fuse.ENOSYS
	}
	return 0, fuse.EACCES
}
