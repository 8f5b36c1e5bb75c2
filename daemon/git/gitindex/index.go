package gitindex

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // git's checksum; it protects against damage, not against attacks
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"sort"
	"strings"
)

// ErrFormat reports a file that is no index, or one that this package does not read.
var ErrFormat = errors.New("not a readable git index")

// Limits of one name and of all names, in bytes. Version 4 leaves out what a name has in common
// with the previous one, so the names can be larger than the file.
const (
	maxName  = 4096
	maxNames = 256 << 20
)

const (
	header    = 12
	statBytes = 40 // the data of stat(2) before the object id
	flagBytes = 2

	flagExtended = 0x4000
	flagStage    = 0x3000
	flagLength   = 0x0fff

	modeDir     = 0o040000
	modeGitlink = 0o160000
	modeType    = 0o170000
)

// Entry is one entry of an index.
type Entry struct {
	Name string
	// raw is the entry up to its name: stat data, object id, flags and, if it has them, extended
	// flags.
	raw []byte
}

// Stage is 0, or 1 to 3 for a side of a conflict.
func (e *Entry) stage(hash int) int { return int(e.flags(hash)&flagStage) >> 12 }

func (e *Entry) flags(hash int) uint16 { return binary.BigEndian.Uint16(e.raw[statBytes+hash:]) }

func (e *Entry) mode() uint32 { return binary.BigEndian.Uint32(e.raw[24:]) }

func (e *Entry) id(hash int) []byte { return e.raw[statBytes : statBytes+hash] }

// extended are the flags of version 3: "skip-worktree" and "intent to add".
func (e *Entry) extended(hash int) uint16 {
	if e.flags(hash)&flagExtended == 0 {
		return 0
	}
	return binary.BigEndian.Uint16(e.raw[statBytes+hash+flagBytes:])
}

const intentToAdd = 0x2000

// Index is the entries of an index, sorted by name and stage.
type Index struct {
	Entries []Entry
	hash    int
}

// Parse reads an index. hash is the size of an object id in bytes: 20 or 32. The result refers to b,
// which must not change. The error wraps ErrFormat.
func Parse(b []byte, hash int) (*Index, error) {
	bad := func(format string, args ...any) (*Index, error) {
		return nil, fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
	}
	if hash != sha1.Size && hash != sha256.Size || len(b) < header+hash || string(b[:4]) != "DIRC" {
		return bad("no header")
	}
	version, count := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	if version < 2 || version > 4 {
		return bad("version %d", version)
	}
	body, sum := b[:len(b)-hash], b[len(b)-hash:]
	// Git writes a null checksum if index.skipHash is set.
	if !bytes.Equal(sum, make([]byte, hash)) && !bytes.Equal(sum, checksum(hash, body)) {
		return bad("the checksum differs")
	}
	p := parser{rest: body[header:], version: version, hash: hash}
	if uint64(count)*uint64(statBytes+hash+flagBytes+1) > uint64(len(p.rest)) {
		return bad("%d entries in %d bytes", count, len(b))
	}
	x := &Index{hash: hash, Entries: make([]Entry, 0, count)}
	total := 0
	for range count {
		e, err := p.entry()
		if err != nil {
			return nil, err
		}
		if total += len(e.Name); total > maxNames {
			return bad("more than %d bytes of names", maxNames)
		}
		if n := len(x.Entries); n > 0 && !less(&x.Entries[n-1], &e, hash) {
			return bad("the entry %.100q is not sorted", e.Name)
		}
		x.Entries = append(x.Entries, e)
	}
	return x, p.extensions()
}

func newHash(size int) hash.Hash {
	if size == sha256.Size {
		return sha256.New()
	}
	return sha1.New() //nolint:gosec // as above
}

func checksum(size int, b []byte) []byte {
	h := newHash(size)
	h.Write(b)
	return h.Sum(nil)
}

func less(a, b *Entry, hash int) bool {
	if a.Name != b.Name {
		return a.Name < b.Name
	}
	return a.stage(hash) < b.stage(hash)
}

// find returns the position of the first entry whose name is not less than name.
func (x *Index) find(name string) int {
	return sort.Search(len(x.Entries), func(i int) bool { return x.Entries[i].Name >= name })
}

// Below returns the range of entries below a directory: from <= i < to.
func (x *Index) Below(dir string) (from, to int) {
	from = x.find(dir + "/")
	to = from + sort.Search(len(x.Entries)-from, func(i int) bool { return !strings.HasPrefix(x.Entries[from+i].Name, dir+"/") })
	return from, to
}

// HasBelow reports whether there is an entry below a directory.
func (x *Index) HasBelow(dir string) bool {
	i := x.find(dir + "/")
	return i < len(x.Entries) && strings.HasPrefix(x.Entries[i].Name, dir+"/")
}

// At returns the range of entries with a name: one, or those of a conflict.
func (x *Index) At(name string) (from, to int) {
	from = x.find(name)
	for to = from; to < len(x.Entries) && x.Entries[to].Name == name; to++ { //nolint:revive // it counts
	}
	return from, to
}

// IDs returns the object ids of the entries with a name, in hexadecimal. Those of submodules, which are
// commits of other repositories, are left out.
func (x *Index) IDs(name string) (ids []string) {
	for i, to := x.At(name); i < to; i++ {
		if e := &x.Entries[i]; e.mode()&modeType != modeGitlink {
			ids = append(ids, hex.EncodeToString(e.id(x.hash)))
		}
	}
	return ids
}

// Conflicts returns the names that have a side of a conflict.
func (x *Index) Conflicts() (names []string) {
	for i := range x.Entries {
		if e := &x.Entries[i]; e.stage(x.hash) != 0 && (len(names) == 0 || names[len(names)-1] != e.Name) {
			names = append(names, e.Name)
		}
	}
	return names
}

// Differences returns the names at which a and b have another mode, content or stage, or that only
// one of them has, sorted.
func Differences(a, b *Index) (names []string) {
	add := func(name string) {
		if len(names) == 0 || names[len(names)-1] != name {
			names = append(names, name)
		}
	}
	i, j := 0, 0
	for i < len(a.Entries) && j < len(b.Entries) {
		switch ea, eb := &a.Entries[i], &b.Entries[j]; {
		case ea.Name < eb.Name:
			add(ea.Name)
			i++
		case ea.Name > eb.Name:
			add(eb.Name)
			j++
		default:
			if ea.mode() != eb.mode() || !bytes.Equal(ea.id(a.hash), eb.id(b.hash)) || ea.stage(a.hash) != eb.stage(b.hash) ||
				(ea.extended(a.hash)|eb.extended(b.hash))&intentToAdd != 0 {
				add(ea.Name)
			}
			i++
			j++
		}
	}
	for ; i < len(a.Entries); i++ {
		add(a.Entries[i].Name)
	}
	for ; j < len(b.Entries); j++ {
		add(b.Entries[j].Name)
	}
	return names
}

// Select returns the bytes of an index, of version 2 or 3, that has the entries at the given
// positions, which must be sorted.
func (x *Index) Select(at []int) []byte {
	version := uint32(2)
	for _, i := range at {
		if x.Entries[i].flags(x.hash)&flagExtended != 0 {
			version = 3
		}
	}
	var b bytes.Buffer
	b.WriteString("DIRC")
	b.Write(binary.BigEndian.AppendUint32(nil, version))
	b.Write(binary.BigEndian.AppendUint32(nil, uint32(len(at)))) //nolint:gosec // at most the number of entries
	for _, i := range at {
		e := &x.Entries[i]
		b.Write(e.raw)
		b.WriteString(e.Name)
		n := len(e.raw) + len(e.Name)
		b.Write(make([]byte, (n+8)&^7-n))
	}
	b.Write(checksum(x.hash, b.Bytes()))
	return b.Bytes()
}
