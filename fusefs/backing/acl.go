package backing

import "golang.org/x/sys/unix"

// A view has no access control lists: setting one is EOPNOTSUPP. On a backing
// directory that hands lists on to what is made in it, the group bits of a mode
// are the most that a list grants to any user (acl(5)), and the kernel, which
// judges by the mode, would let the owning group do what its entry forbids. In
// such a view groups have no rights; owner and others have those of the list.

// HasACL reports whether a directory has a list, or one for what is made in it.
func HasACL(dir int) bool {
	for _, name := range []string{"system.posix_acl_access", "system.posix_acl_default"} {
		if n, err := unix.Getxattr(ProcPath(dir), name, nil); err == nil && n > 0 {
			return true
		}
	}
	return false
}
