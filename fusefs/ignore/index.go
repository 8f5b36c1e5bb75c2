package ignore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrIndex is what parseIndex has against a file.
var ErrIndex = errors.New("not a git index")

// tracked is the sorted list of the index's paths.
type tracked struct {
	paths []string
	// sparse directories (mode 040000) stand for everything below.
	sparse []string
}

// has reports whether the path is tracked, or lies in a sparse directory.
func (t *tracked) has(path string) bool {
	if _, ok := slices.BinarySearch(t.paths, path); ok {
		return true
	}
	for _, s := range t.sparse {
		if strings.HasPrefix(path, s) || path+"/" == s {
			return true
		}
	}
	return false
}

// below reports whether something below the directory is tracked.
func (t *tracked) below(dir string) bool {
	prefix := dir + "/"
	i, _ := slices.BinarySearch(t.paths, prefix)
	if i < len(t.paths) && strings.HasPrefix(t.paths[i], prefix) {
		return true
	}
	for _, s := range t.sparse {
		if strings.HasPrefix(s, prefix) || strings.HasPrefix(prefix, s) {
			return true
		}
	}
	return false
}

// parseIndex reads the paths of an index of version 2, 3 or 4
// (gitformat-index). hashLen is 20 or 32 bytes.
func parseIndex(b []byte, hashLen int) (*tracked, error) {
	if len(b) < 12+hashLen || string(b[:4]) != "DIRC" {
		return nil, fmt.Errorf("%w: no header", ErrIndex)
	}
	version, count := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	if version < 2 || version > 4 {
		return nil, fmt.Errorf("%w: version %d", ErrIndex, version)
	}
	p := indexParser{rest: b[12 : len(b)-hashLen], version: version, hashLen: hashLen}
	if uint64(count)*uint64(p.smallest()) > uint64(len(p.rest)) {
		return nil, fmt.Errorf("%w: %d entries in %d bytes", ErrIndex, count, len(b))
	}
	t := &tracked{paths: make([]string, 0, count)}
	total := 0
	for range count {
		name, dir, err := p.entry()
		if err != nil {
			return nil, err
		}
		// Version 4 leaves out what a name has in common with the one before.
		if total += len(name); total > maxNames {
			return nil, fmt.Errorf("%w: %w: more than %d bytes of names", ErrIndex, ErrTooLarge, maxNames)
		}
		if dir {
			t.sparse = append(t.sparse, name)
			continue
		}
		t.paths = append(t.paths, name)
	}
	if err := p.extensions(); err != nil {
		return nil, err
	}
	// Git sorts by bytes and stage already; trust nothing that is searched.
	if !slices.IsSorted(t.paths) {
		slices.Sort(t.paths)
	}
	return t, nil
}

type indexParser struct {
	rest     []byte
	version  uint32
	hashLen  int
	previous string
}

// smallest is a lower bound of an entry's size.
func (p *indexParser) smallest() int { return 40 + p.hashLen + 2 + 1 }

func (p *indexParser) entry() (name string, dir bool, err error) {
	fixed := 40 + p.hashLen + 2
	if len(p.rest) < fixed+1 {
		return "", false, fmt.Errorf("%w: entry cut short", ErrIndex)
	}
	mode := binary.BigEndian.Uint32(p.rest[24:])
	flags := binary.BigEndian.Uint16(p.rest[fixed-2:])
	at := fixed
	if flags&0x4000 != 0 { // extended
		if p.version < 3 {
			return "", false, fmt.Errorf("%w: extended entry in version 2", ErrIndex)
		}
		at += 2
	}
	if at > len(p.rest) {
		return "", false, fmt.Errorf("%w: entry cut short", ErrIndex)
	}
	strip := 0
	if p.version == 4 {
		n, used, err := varint(p.rest[at:])
		if err != nil {
			return "", false, err
		}
		if n > len(p.previous) {
			return "", false, fmt.Errorf("%w: prefix longer than the previous name", ErrIndex)
		}
		at, strip = at+used, n
	}
	end := bytes.IndexByte(p.rest[at:], 0)
	if end < 0 || end > maxName {
		return "", false, fmt.Errorf("%w: name does not end", ErrIndex)
	}
	name = string(p.rest[at : at+end])
	if p.version == 4 {
		name = p.previous[:len(p.previous)-strip] + name
		at += end + 1
	} else {
		// Names are padded with 1 to 8 NULs to a multiple of eight.
		at = (at + end + 8) &^ 7
	}
	if name == "" || len(name) > maxName || at > len(p.rest) {
		return "", false, fmt.Errorf("%w: bad name", ErrIndex)
	}
	// The flags repeat the length: an index of the other hash does not fit.
	if n := min(len(name), 0xfff); int(flags&0xfff) != n {
		return "", false, fmt.Errorf("%w: name of %d bytes, flags say %d", ErrIndex, len(name), flags&0xfff)
	}
	p.previous, p.rest = name, p.rest[at:]
	dir = mode&0o170000 == 0o040000
	if dir && !strings.HasSuffix(name, "/") {
		return "", false, fmt.Errorf("%w: sparse directory %q", ErrIndex, name)
	}
	return name, dir, nil
}

// extensions refuses an index that is not complete by itself: a split index
// ("link") has its entries elsewhere, and lower-case extensions are those a
// reader must understand.
func (p *indexParser) extensions() error {
	for len(p.rest) > 0 {
		if len(p.rest) < 8 {
			return fmt.Errorf("%w: extension cut short", ErrIndex)
		}
		name, size := string(p.rest[:4]), binary.BigEndian.Uint32(p.rest[4:])
		if uint64(size) > uint64(len(p.rest)-8) {
			return fmt.Errorf("%w: extension cut short", ErrIndex)
		}
		if c := name[0]; (c < 'A' || c > 'Z') && name != "sdir" {
			return fmt.Errorf("%w: needs extension %q", ErrIndex, name)
		}
		p.rest = p.rest[8+size:]
	}
	return nil
}

// varint is the offset encoding of pack files (varint.c).
func varint(b []byte) (n, used int, err error) {
	for i, c := range b {
		if i > 4 {
			break
		}
		if i > 0 {
			n++
		}
		n = n<<7 | int(c&0x7f)
		if c&0x80 == 0 {
			return n, i + 1, nil
		}
	}
	return 0, 0, fmt.Errorf("%w: bad number", ErrIndex)
}

// maxNames bounds the paths of all entries, in bytes: about two million files.
const maxNames = 128 << 20

// maxName is the longest path of an entry, in bytes (PATH_MAX).
const maxName = 4096
