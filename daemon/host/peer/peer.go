package peer

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxGroups bounds the supplementary groups that are read (NGROUPS_MAX in limits.h).
const maxGroups = 65536

// Peer is the process that connected, at that time.
type Peer struct {
	PID      int32
	UID, GID uint32
	Groups   []uint32 // supplementary
}

// Of returns who is at the other end of c, which must be a unix socket.
func Of(c net.Conn) (Peer, error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return Peer{}, errors.New("not a unix socket")
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return Peer{}, err
	}
	var p Peer
	var perr error
	err = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil {
			perr = fmt.Errorf("read credentials: %w", err)
			return
		}
		p = Peer{PID: cred.Pid, UID: cred.Uid, GID: cred.Gid}
		p.Groups, perr = groups(int(fd))
	})
	return p, errors.Join(err, perr)
}

// groups reads SO_PEERGROUPS. The kernel says how much room it needs.
func groups(fd int) ([]uint32, error) {
	for room := 64; room <= maxGroups; room *= 2 {
		list := make([]uint32, room)
		size := uint32(4 * room)
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&list[0])), uintptr(unsafe.Pointer(&size)), 0)
		switch errno {
		case 0:
			return slices.Clip(list[:size/4]), nil
		case unix.ERANGE:
			continue
		}
		return nil, fmt.Errorf("read groups: %w", errno)
	}
	return nil, fmt.Errorf("read groups: more than %d", maxGroups)
}

// Admin reports whether it is root, or who this process runs as.
func (p Peer) Admin() bool { return p.UID == 0 || int(p.UID) == os.Geteuid() }

// In reports whether it is in a group. Root's group, and a negative number, are none.
func (p Peer) In(gid int) bool {
	return gid > 0 && (p.GID == uint32(gid) || slices.Contains(p.Groups, uint32(gid)))
}
