package acl

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Attribute is the extended attribute of a file that has its list.
const Attribute = "system.posix_acl_access"

// Tag is the kind of an entry (linux/posix_acl.h).
type Tag uint16

// The kinds of entries. A list has them in this order.
const (
	UserObj  Tag = 0x01 // the owner
	User     Tag = 0x02 // the user ID
	GroupObj Tag = 0x04 // the group of the file
	Group    Tag = 0x08 // the group ID
	Mask     Tag = 0x10 // the most that User, GroupObj and Group grant
	Other    Tag = 0x20
)

// Permissions of an entry, as in mode bits.
const (
	Read    uint16 = 4
	Write   uint16 = 2
	Execute uint16 = 1
)

// Entry is one entry of a list. ID counts for User and Group only.
type Entry struct {
	Tag  Tag
	Perm uint16
	ID   uint32
}

// version and noID are from linux/posix_acl_xattr.h.
const (
	version = 2
	noID    = 0xffffffff
)

// ErrFormat is returned for an attribute that has no list.
var ErrFormat = errors.New("access control list is not understood")

// Encode returns the value of Attribute.
func Encode(entries ...Entry) []byte {
	b := binary.LittleEndian.AppendUint32(nil, version)
	for _, e := range entries {
		if e.Tag != User && e.Tag != Group {
			e.ID = noID
		}
		b = binary.LittleEndian.AppendUint16(b, uint16(e.Tag))
		b = binary.LittleEndian.AppendUint16(b, e.Perm)
		b = binary.LittleEndian.AppendUint32(b, e.ID)
	}
	return b
}

// Decode returns the entries of a value of Attribute.
func Decode(b []byte) ([]Entry, error) {
	if len(b) < 4 || len(b)%8 != 4 || binary.LittleEndian.Uint32(b) != version {
		return nil, fmt.Errorf("%w: %d bytes", ErrFormat, len(b))
	}
	var list []Entry
	for b = b[4:]; len(b) > 0; b = b[8:] {
		list = append(list, Entry{Tag: Tag(binary.LittleEndian.Uint16(b)), Perm: binary.LittleEndian.Uint16(b[2:]), ID: binary.LittleEndian.Uint32(b[4:])})
	}
	return list, nil
}

// Of returns the list of an open file. A file without one has that of its mode.
func Of(fd int) ([]Entry, error) {
	buf := make([]byte, unix.PathMax) // 500 entries
	n, err := unix.Fgetxattr(fd, Attribute, buf)
	switch {
	case errors.Is(err, unix.ENODATA), errors.Is(err, unix.EOPNOTSUPP):
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return nil, fmt.Errorf("stat: %w", err)
		}
		m := uint16(st.Mode & 0o777)
		return []Entry{{Tag: UserObj, Perm: m >> 6}, {Tag: GroupObj, Perm: m >> 3 & 7}, {Tag: Other, Perm: m & 7}}, nil
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", Attribute, err)
	}
	return Decode(buf[:n])
}

// Allowed reports whether a list grants all of perm to a user with one group, as the kernel decides it. owner and
// group are those of the file.
func Allowed(list []Entry, owner, group, uid, gid uint32, perm uint16) bool {
	mask := uint16(7)
	for _, e := range list {
		if e.Tag == Mask {
			mask = e.Perm
		}
	}
	inGroup := false
	for _, e := range list {
		grants := e.Perm&perm == perm
		switch {
		case e.Tag == UserObj && uid == owner:
			return grants
		case e.Tag == User && uid == e.ID:
			return grants && mask&perm == perm
		case e.Tag == GroupObj && gid == group, e.Tag == Group && gid == e.ID:
			if inGroup = true; grants && mask&perm == perm {
				return true
			}
		case e.Tag == Other:
			return grants && !inGroup
		}
	}
	return false
}
