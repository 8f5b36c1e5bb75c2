package fusefs

import (
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
)

// Seen is what was at a path at one time.
type Seen struct {
	kind            uint32 // S_IFMT bits, 0 for nothing
	dev, ino        uint64
	born            int64 // 0 if it is not known
	size            uint64
	mode            uint16
	modified, ctime int64
}

// See reads what is at a path beneath a directory and on its mount. Whatever cannot be read counts as nothing.
func See(dir int, path string) Seen {
	fd, err := openOnMount(dir, path)
	if err != nil {
		return Seen{}
	}
	defer backing.Close(fd)
	st, e := backing.StatAt(fd, "")
	if e != 0 {
		return Seen{}
	}
	return seenOf(&st)
}

func seenOf(st *unix.Statx_t) Seen {
	s := Seen{kind: uint32(st.Mode) & unix.S_IFMT, dev: unix.Mkdev(st.Dev_major, st.Dev_minor), ino: st.Ino, size: st.Size, mode: st.Mode,
		modified: st.Mtime.Sec*1e9 + int64(st.Mtime.Nsec), ctime: st.Ctime.Sec*1e9 + int64(st.Ctime.Nsec)}
	if st.Mask&unix.STATX_BTIME != 0 {
		s.born = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
	return s
}

// Became returns what has become of a path that is now as given; ok is false if nothing has changed.
func (was Seen) Became(path string, now Seen) (c Change, ok bool) {
	c = Change{Path: path, Was: was.kind, Is: now.kind}
	switch {
	case was.kind == 0 || now.kind == 0:
		c.Content = now.kind == unix.S_IFREG
		return c, was.kind != now.kind
	case was.kind != now.kind || was.dev != now.dev || was.ino != now.ino || was.born != now.born:
		c.Replaced, c.Content = true, now.kind == unix.S_IFREG
		return c, true
	case now.kind == unix.S_IFDIR: // its times say that names in it have changed
		return c, was.mode != now.mode
	}
	c.Content = now.kind == unix.S_IFREG && (was.size != now.size || was.modified != now.modified)
	return c, c.Content || was.ctime != now.ctime
}
