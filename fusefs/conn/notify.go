package conn

import (
	"syscall"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Notifications. ENOENT means that the kernel does not know the inode or the name, so that there
// is nothing to invalidate. They may wait in the kernel for a request on the same directory; a
// handler must not wait for one.

// InodeNotify invalidates the cached attributes of an inode and, unless off is negative, length
// bytes of data from off; a length of 0 means to the end.
func (c *Conn) InodeNotify(node uint64, off, length int64) syscall.Errno {
	msg := struct {
		fuse.OutHeader
		fuse.NotifyInvalInodeOut
	}{NotifyInvalInodeOut: fuse.NotifyInvalInodeOut{Ino: node, Off: off, Length: length}}
	msg.OutHeader.Length = uint32(unsafe.Sizeof(msg))
	msg.Status = -fuse.NOTIFY_INVAL_INODE
	return c.notify(unsafe.Pointer(&msg), unsafe.Sizeof(msg))
}

// EntryNotify invalidates a cached name, whether it exists or not.
func (c *Conn) EntryNotify(parent uint64, name string) syscall.Errno {
	if len(name) > maxName {
		return syscall.ENAMETOOLONG
	}
	var msg struct {
		fuse.OutHeader
		fuse.NotifyInvalEntryOut
		name [maxName + 1]byte
	}
	size := unsafe.Offsetof(msg.name) + uintptr(len(name)) + 1
	msg.OutHeader = fuse.OutHeader{Length: uint32(size), Status: -fuse.NOTIFY_INVAL_ENTRY}
	msg.NotifyInvalEntryOut = fuse.NotifyInvalEntryOut{Parent: parent, NameLen: uint32(len(name))}
	copy(msg.name[:], name)
	return c.notify(unsafe.Pointer(&msg), size)
}

const (
	notifyPrune = 9 // FUSE_NOTIFY_PRUNE (uapi/linux/fuse.h, protocol 7.45, Linux 6.18)
	pruneBatch  = 512
)

// notifyPruneOut is struct fuse_notify_prune_out.
type notifyPruneOut struct {
	Count, _ uint32
	_        uint64
}

// PruneNotify makes the kernel drop the names of inodes that nothing uses: no open file, working
// directory, mount or cached name below. It then forgets an inode without a name, with a FORGET.
// Others stay as they are. EINVAL means that the kernel does not have this notification; no nodes
// query that.
func (c *Conn) PruneNotify(nodes []uint64) syscall.Errno {
	for {
		var msg struct {
			fuse.OutHeader
			notifyPruneOut
			nodes [pruneBatch]uint64
		}
		n := copy(msg.nodes[:], nodes)
		size := unsafe.Offsetof(msg.nodes) + uintptr(n)*unsafe.Sizeof(msg.nodes[0])
		msg.OutHeader = fuse.OutHeader{Length: uint32(size), Status: notifyPrune}
		msg.Count = uint32(n)
		if e := c.notify(unsafe.Pointer(&msg), size); e != 0 {
			return e
		}
		if nodes = nodes[n:]; len(nodes) == 0 {
			return 0
		}
	}
}

func (c *Conn) notify(msg unsafe.Pointer, size uintptr) syscall.Errno {
	return c.with(func(fd int) syscall.Errno {
		_, _, e := unix.Syscall(unix.SYS_WRITE, uintptr(fd), uintptr(msg), size)
		return e
	})
}

// MaxPush is the size limit of Push, in bytes.
const MaxPush = kept - 4096

// Push reads a file of size bytes and stores its content in the kernel's page cache of an inode,
// before a READ: a file that is then read in the call after the one that is handled needs no
// request, and as no READ is sent its attributes stay as they are. The kernel keeps pages it has.
// False means that nothing was stored, because the file is larger, or has changed.
func (c *Call) Push(node uint64, file int, size int) bool {
	const head = int(unsafe.Sizeof(fuse.OutHeader{}) + unsafe.Sizeof(fuse.NotifyStoreOut{}))
	if size <= 0 || size > MaxPush {
		return false
	}
	// Behind the answer, whose body begins at a page; so does the data.
	msg := c.reader.out[replySize+page-head:][:head+size]
	n, err := unix.Pread(file, msg[head:], 0)
	if err != nil || n != size {
		return false
	}
	*(*fuse.OutHeader)(unsafe.Pointer(unsafe.SliceData(msg))) = fuse.OutHeader{Length: uint32(len(msg)), Status: -fuse.NOTIFY_STORE_CACHE}
	*(*fuse.NotifyStoreOut)(unsafe.Pointer(&msg[unsafe.Sizeof(fuse.OutHeader{})])) = fuse.NotifyStoreOut{Nodeid: node, Size: uint32(size)}
	_, err = syscall.Write(c.reader.c.fd, msg)
	return err == nil
}

const (
	iocBackingOpen  = 0x4010e501 // FUSE_DEV_IOC_BACKING_OPEN
	iocBackingClose = 0x4004e502 // FUSE_DEV_IOC_BACKING_CLOSE
)

// OpenBacking registers a file for passthrough and returns its number. The
// descriptor, which may be O_PATH, can be closed at once.
func (c *Conn) OpenBacking(file int) (id int32, e syscall.Errno) {
	m := fuse.BackingMap{Fd: int32(file)}
	e = c.with(func(fd int) syscall.Errno {
		n, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), iocBackingOpen, uintptr(unsafe.Pointer(&m)))
		id = int32(n)
		return e
	})
	return id, e
}

// CloseBacking closes a registration.
func (c *Conn) CloseBacking(id int32) syscall.Errno {
	return c.with(func(fd int) syscall.Errno {
		_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), iocBackingClose, uintptr(unsafe.Pointer(&id)))
		return e
	})
}
