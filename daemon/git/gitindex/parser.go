package gitindex

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

type parser struct {
	rest     []byte
	version  uint32
	hash     int
	previous string
}

func (p *parser) entry() (Entry, error) {
	bad := func(what string) (Entry, error) { return Entry{}, fmt.Errorf("%w: %s", ErrFormat, what) }
	at := statBytes + p.hash + flagBytes
	if len(p.rest) < at+1 {
		return bad("an entry is cut short")
	}
	flags := binary.BigEndian.Uint16(p.rest[at-flagBytes:])
	if flags&flagExtended != 0 {
		if p.version < 3 {
			return bad("an extended entry in version 2")
		}
		at += 2
	}
	if at > len(p.rest) {
		return bad("an entry is cut short")
	}
	e := Entry{raw: p.rest[:at:at]}
	keep := ""
	if p.version == 4 {
		strip, used, err := varint(p.rest[at:])
		if err != nil {
			return Entry{}, err
		}
		if strip > len(p.previous) {
			return bad("a prefix is longer than the previous name")
		}
		at += used
		keep = p.previous[:len(p.previous)-strip]
	}
	end := bytes.IndexByte(p.rest[at:min(len(p.rest), at+maxName+1)], 0)
	if end < 0 {
		return bad("a name does not end")
	}
	e.Name = keep + string(p.rest[at:at+end])
	if p.version == 4 {
		at += end + 1
	} else {
		at = (at + end + 8) &^ 7 // names are padded with 1 to 8 NULs to a multiple of eight
	}
	switch {
	case e.Name == "" || len(e.Name) > maxName || at > len(p.rest):
		return bad("a bad name")
	case int(flags&flagLength) != min(len(e.Name), flagLength):
		return bad("the length of a name differs from its flags")
	case e.mode()&modeType == modeDir:
		return bad("a sparse directory")
	}
	p.previous, p.rest = e.Name, p.rest[at:]
	return e, nil
}

// extensions rejects an index that needs another file or a reader that knows more. The names of
// extensions that a reader may ignore begin with a capital letter.
func (p *parser) extensions() error {
	for len(p.rest) > 0 {
		if len(p.rest) < 8 {
			return fmt.Errorf("%w: an extension is cut short", ErrFormat)
		}
		name, size := p.rest[:4], binary.BigEndian.Uint32(p.rest[4:])
		if uint64(size) > uint64(len(p.rest)-8) {
			return fmt.Errorf("%w: an extension is cut short", ErrFormat)
		}
		if c := name[0]; c < 'A' || c > 'Z' {
			return fmt.Errorf("%w: it needs the extension %q", ErrFormat, name)
		}
		p.rest = p.rest[8+size:]
	}
	return nil
}

// varint reads the offset encoding of git (varint.c).
func varint(b []byte) (n, used int, err error) {
	for i, c := range b[:min(len(b), 5)] {
		if i > 0 {
			n++
		}
		n = n<<7 | int(c&0x7f)
		if c&0x80 == 0 {
			return n, i + 1, nil
		}
	}
	return 0, 0, fmt.Errorf("%w: a bad number", ErrFormat)
}
