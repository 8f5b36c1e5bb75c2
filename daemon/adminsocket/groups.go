package adminsocket

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

// Admins is the group that may use the API besides root.
const Admins = "polis"

// AdminGroup returns the gid of the group Admins, -1 if this machine has none.
func AdminGroup() int {
	g, err := user.LookupGroup(Admins)
	if err != nil {
		return -1
	}
	gid, err := strconv.Atoi(g.Gid)
	if err != nil {
		return -1
	}
	return gid
}

// ReadGroup returns the gid of the group with read-only access, -1 if name is "". name is a group
// of this machine, or its number.
func ReadGroup(name string) (int, error) {
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

// Allow permits one more group to connect to the socket, besides the one that owns it. A gid of -1
// permits none. The kernel refuses other users, and the server checks the caller again.
func Allow(l net.Listener, gid int) error {
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
