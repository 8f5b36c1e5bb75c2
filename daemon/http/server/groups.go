package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/host/acl"
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

// AllowGroup permits one more group to connect to the socket, besides the one that owns it. A gid of -1
// permits none. The kernel refuses other users, and the server checks the caller again.
func AllowGroup(l net.Listener, gid int) error {
	path := l.Addr().String()
	if gid < 0 {
		err := unix.Removexattr(path, acl.Attribute) // of an earlier configuration; systemd keeps the socket
		if err == nil || errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOENT) {
			return nil
		}
		return &os.PathError{Op: "remove the access control list of", Path: path, Err: err}
	}
	const perm = acl.Read | acl.Write
	list := acl.Encode(acl.Entry{Tag: acl.UserObj, Perm: perm}, acl.Entry{Tag: acl.GroupObj, Perm: perm},
		acl.Entry{Tag: acl.Group, Perm: perm, ID: uint32(gid)}, acl.Entry{Tag: acl.Mask, Perm: perm}, acl.Entry{Tag: acl.Other})
	if err := unix.Setxattr(path, acl.Attribute, list, 0); err != nil {
		return fmt.Errorf("let read_group connect: %w", &os.PathError{Op: "set an access control list on", Path: path, Err: err})
	}
	return nil
}
