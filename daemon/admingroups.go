package daemon

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
)

// readGroup is the gid of the group with read-only access; -1 for none.
func (d *Daemon) readGroup() (int, error) {
	name := d.Config.ReadGroup
	if name == "" {
		return -1, nil
	}
	number := name
	if g, err := user.LookupGroup(name); err == nil {
		number = g.Gid
	}
	gid, err := strconv.ParseUint(number, 10, 31)
	if err != nil || gid == 0 {
		return -1, api.Errorf(api.CodeInvalidConfig, "read_group = %q: must be a group of this machine other than root's", name).
			WithHint("groupadd --system %s makes it; without read_group no user has read-only access", name)
	}
	return int(gid), nil
}

// letIn lets a group connect to the admin socket, besides the one that it belongs to; with a gid
// of -1 no other. The socket is not open to all: the kernel refuses other users, and the server
// checks the caller again.
func letIn(l net.Listener, gid int) error {
	const acl = "system.posix_acl_access"
	path := l.Addr().String()
	if gid < 0 {
		err := unix.Removexattr(path, acl) // of an earlier configuration; systemd keeps the socket
		if err == nil || errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOENT) {
			return nil
		}
		return &os.PathError{Op: "remove the access control list of", Path: path, Err: err}
	}
	// acl(5), as linux/posix_acl_xattr.h has it: version 2, then tag, permissions, id.
	const userObj, groupObj, group, mask, other, readWrite, nobody = 1, 4, 8, 0x10, 0x20, 6, 0xffffffff
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{userObj, readWrite, nobody}, {groupObj, readWrite, nobody}, {group, readWrite, uint32(gid)}, {mask, readWrite, nobody}, {other, 0, nobody}} {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.perm)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	if err := unix.Setxattr(path, acl, b, 0); err != nil {
		return fmt.Errorf("let read_group connect: %w", &os.PathError{Op: "set an access control list on", Path: path, Err: err})
	}
	return nil
}
