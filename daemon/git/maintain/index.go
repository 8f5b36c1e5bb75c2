package maintain

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
)

// errIndex is the error of readIndex for a malformed file.
var errIndex = errors.New("it is no index of git's")

// maxIndexName bounds the name of an entry, in bytes (PATH_MAX).
const maxIndexName = 4096

// readIndex finds the ids in an index of version 2, 3 or 4 (gitformat-index(5)): those of its
// entries and those of resolved conflicts. hash is the size of an id in bytes. It does not use
// git: an agent writes this file.
func readIndex(r io.Reader, hash int, each func(id string)) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var head [12]byte
	if _, err := io.ReadFull(in, head[:]); err != nil || string(head[:4]) != "DIRC" {
		return fmt.Errorf("%w: no header", errIndex)
	}
	version, count := binary.BigEndian.Uint32(head[4:]), binary.BigEndian.Uint32(head[8:])
	if version < 2 || version > 4 {
		return fmt.Errorf("%w: version %d", errIndex, version)
	}
	for range count {
		if err := entry(in, version, hash, each); err != nil {
			return err
		}
	}
	for {
		var ext [8]byte
		// A rest that is too short for an extension is the checksum at the end.
		b, err := in.Peek(hash + 1)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(b) <= hash {
			return nil
		}
		if _, err := io.ReadFull(in, ext[:]); err != nil {
			return fmt.Errorf("%w: extension cut short", errIndex)
		}
		body := &io.LimitedReader{R: in, N: int64(binary.BigEndian.Uint32(ext[4:]))}
		if string(ext[:4]) == "REUC" {
			if err := resolved(body, hash, each); err != nil {
				return err
			}
		}
		if _, err := io.Copy(io.Discard, body); err != nil {
			return err
		}
		if body.N > 0 {
			return fmt.Errorf("%w: extension cut short", errIndex)
		}
	}
}

func entry(in *bufio.Reader, version uint32, hash int, each func(string)) error {
	fixed := make([]byte, 40+hash+2, 40+hash+4)
	if _, err := io.ReadFull(in, fixed); err != nil {
		return fmt.Errorf("%w: entry cut short", errIndex)
	}
	each(hex.EncodeToString(fixed[40 : 40+hash]))
	size := len(fixed)
	if fixed[40+hash]&0x40 != 0 { // extended
		if _, err := in.Discard(2); err != nil {
			return fmt.Errorf("%w: entry cut short", errIndex)
		}
		size += 2
	}
	if version == 4 { // length of the previous name's suffix to drop
		for c := byte(0x80); c&0x80 != 0; {
			var err error
			if c, err = in.ReadByte(); err != nil {
				return fmt.Errorf("%w: entry cut short", errIndex)
			}
		}
	}
	name := 0
	for {
		c, err := in.ReadByte()
		if err != nil || name > maxIndexName {
			return fmt.Errorf("%w: name does not end", errIndex)
		}
		if c == 0 {
			break
		}
		name++
	}
	if version == 4 {
		return nil
	}
	// Names are padded with 1 to 8 NULs to a multiple of eight.
	pad := (size+name+8)&^7 - (size + name + 1)
	if _, err := in.Discard(pad); err != nil {
		return fmt.Errorf("%w: entry cut short", errIndex)
	}
	return nil
}

// resolved reads the extension REUC: a name, three modes in octal, and an id for
// each that is not 0.
func resolved(r io.Reader, hash int, each func(string)) error {
	b, err := io.ReadAll(io.LimitReader(r, maxNamedFile))
	if err != nil {
		return err
	}
	for len(b) > 0 {
		ids := 0
		for i := range 4 {
			field, rest, ok := bytes.Cut(b, []byte{0})
			if !ok {
				return fmt.Errorf("%w: resolved conflicts cut short", errIndex)
			}
			if b = rest; i > 0 && strings.Trim(string(field), "0") != "" {
				ids++
			}
		}
		if len(b) < ids*hash {
			return fmt.Errorf("%w: resolved conflicts cut short", errIndex)
		}
		for range ids {
			each(hex.EncodeToString(b[:hash]))
			b = b[hash:]
		}
	}
	return nil
}
