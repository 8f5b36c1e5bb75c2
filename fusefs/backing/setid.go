package backing

import (
	"bufio"
	"bytes"
	"strconv"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// The set-id bits of a file go when an unprivileged caller changes its content
// or its owner (chown(2), write(2)). The server is privileged, so the backing
// file system does not see to it.

// KillPriv takes the bits away after a change by the caller of h.
func KillPriv(fd int, h *fuse.InHeader) syscall.Errno {
	st, e := StatAt(fd, "")
	if e != 0 {
		return e
	}
	mode := uint32(st.Mode) & 0o7777
	kept := mode &^ setIDLost(&st, h)
	if kept == mode {
		return 0
	}
	return Chmod(fd, kept)
}

// setIDLost are the bits a change by this caller costs. Set-group-ID without
// group execution is none if the caller is in the group.
func setIDLost(st *unix.Statx_t, h *fuse.InHeader) uint32 {
	mode := uint32(st.Mode)
	if mode&unix.S_IFMT == unix.S_IFDIR {
		return 0
	}
	lost := mode & unix.S_ISUID
	if mode&unix.S_ISGID != 0 && (mode&unix.S_IXGRP != 0 || !inGroup(h, st.Gid)) {
		lost |= unix.S_ISGID
	}
	return lost
}

// Chown gives an object to uid and gid (-1: as it is) for the caller of h.
func Chown(fd, uid, gid int, h *fuse.InHeader) syscall.Errno {
	if h.Uid == 0 {
		return Errno(unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH))
	}
	st, e := StatAt(fd, "")
	if e != 0 {
		return e
	}
	lost := setIDLost(&st, h)
	if e := Errno(unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH)); e != 0 || lost == 0 {
		return e
	}
	return Chmod(fd, uint32(st.Mode)&0o7777&^lost)
}

// Touch is a SETATTR that sets nothing. It is chown(-1, -1), which counts as a change, or it precedes
// an unprivileged write to a file with set-id bits, also with passthrough: then Touch removes the
// bits. If no process has the file open for writing it is the former, and only the owner may remove
// the bits.
func Touch(fd int, h *fuse.InHeader, writing bool) syscall.Errno {
	st, e := StatAt(fd, "")
	if e != 0 {
		return e
	}
	lost := uint32(0)
	if h.Uid != 0 {
		lost = setIDLost(&st, h)
	}
	switch {
	case lost == 0:
		return Chown(fd, -1, -1, h)
	case writing || st.Uid == h.Uid:
		return Chmod(fd, uint32(st.Mode)&0o7777&^lost)
	}
	return syscall.EPERM
}

// inGroup reports whether the caller is a member of a group. The kernel reports
// only one of its groups; it waits for the answer, so /proc knows the others.
// Of whom nothing is known is not a member.
func inGroup(h *fuse.InHeader, gid uint32) bool {
	if h.Gid == gid {
		return true
	}
	b, err := ProcessStatus(h.Pid)
	return err == nil && groupOfStatus(b, gid)
}

// groupOfStatus looks for a supplementary group in a status file (proc_pid_status(5)).
func groupOfStatus(b []byte, gid uint32) bool {
	want := strconv.FormatUint(uint64(gid), 10)
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		if groups, ok := strings.CutPrefix(s.Text(), "Groups:"); ok {
			for g := range strings.FieldsSeq(groups) {
				if g == want {
					return true
				}
			}
			return false
		}
	}
	return false
}
