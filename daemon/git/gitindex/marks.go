package gitindex

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"io/fs"
	"slices"
	"syscall"
)

// The marks of git-update-index(1) by which git takes a file for unchanged without looking at it.
const (
	assumeUnchanged = 0x8000 // of the flags
	skipWorktree    = 0x4000 // of the extended flags
)

// Marked returns the positions of the entries with such a mark.
func (x *Index) Marked() (at []int) {
	for i := range x.Entries {
		if e := &x.Entries[i]; e.flags(x.hash)&assumeUnchanged != 0 || e.extended(x.hash)&skipWorktree != 0 {
			at = append(at, i)
		}
	}
	return at
}

// Skipped reports whether an entry has the mark "skip-worktree": then its file may also be missing.
func (x *Index) Skipped(i int) bool { return x.Entries[i].extended(x.hash)&skipWorktree != 0 }

// ID is the object id of an entry, in hexadecimal.
func (x *Index) ID(i int) string { return hex.EncodeToString(x.Entries[i].id(x.hash)) }

// Unmark takes the marks of the entry at a position away.
func (x *Index) Unmark(i int) {
	e := &x.Entries[i]
	e.raw = slices.Clone(e.raw) // the bytes that were parsed must not change
	at := statBytes + x.hash
	binary.BigEndian.PutUint16(e.raw[at:], e.flags(x.hash)&^assumeUnchanged)
	if e.flags(x.hash)&flagExtended != 0 {
		binary.BigEndian.PutUint16(e.raw[at+flagBytes:], e.extended(x.hash)&^skipWorktree)
	}
}

// SameStat reports whether a file has the size and the time of modification that an entry notes.
func (x *Index) SameStat(i int, fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	raw := x.Entries[i].raw
	sec, nsec, size := binary.BigEndian.Uint32(raw[8:]), binary.BigEndian.Uint32(raw[12:]), binary.BigEndian.Uint32(raw[36:])
	//nolint:gosec // an index has the lower 32 bits of each
	return sec == uint32(st.Mtim.Sec) && nsec == uint32(st.Mtim.Nsec) && size == uint32(st.Size)
}

// Modified is the time, in whole seconds, at which an entry notes that its file was modified.
func (x *Index) Modified(i int) int64 { return int64(binary.BigEndian.Uint32(x.Entries[i].raw[8:])) }

// Whole returns the bytes of an index with all entries.
func (x *Index) Whole() []byte {
	at := make([]int, len(x.Entries))
	for i := range at {
		at[i] = i
	}
	return x.Select(at)
}

// HasGitlinks reports whether the bytes of an index can have an entry of a submodule: without one, it need not
// be parsed.
func HasGitlinks(b []byte) bool { return bytes.Contains(b, []byte{0, 0, modeGitlink >> 8, 0}) }

// Gitlinks returns the names of the entries that are submodules, with the commits that they name, in hexadecimal. Of a
// conflict, one side is there.
func (x *Index) Gitlinks() map[string]string {
	links := map[string]string{}
	for i := range x.Entries {
		if e := &x.Entries[i]; e.mode()&modeType == modeGitlink {
			links[e.Name] = x.ID(i)
		}
	}
	return links
}
