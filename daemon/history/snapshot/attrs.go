package snapshot

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	userPrefix = "user."
	maxAttrs   = 64 << 10 // bytes of names, and of one value (XATTR_SIZE_MAX)
)

// Attr is one extended attribute.
type Attr struct {
	Name  string
	Value []byte
}

// EncodeAttrs returns "name value\n" for every attribute, both in hexadecimal, in the order of the
// names; nil for none.
func EncodeAttrs(all []Attr) []byte {
	slices.SortFunc(all, func(a, b Attr) int { return strings.Compare(a.Name, b.Name) })
	var out []byte
	for _, a := range all {
		out = fmt.Appendf(out, "%x %x\n", a.Name, a.Value)
	}
	return out
}

// parseAttrs reads what EncodeAttrs wrote.
func parseAttrs(b []byte) ([]Attr, error) {
	var out []Attr
	for len(b) > 0 {
		line, rest, ok := bytes.Cut(b, []byte{'\n'})
		name, value, sep := strings.Cut(string(line), " ")
		n, err1 := hex.DecodeString(name)
		v, err2 := hex.DecodeString(value)
		if err := errors.Join(err1, err2); err != nil || !ok || !sep {
			return nil, fmt.Errorf("extended attributes: line %.80q", line)
		}
		if !strings.HasPrefix(string(n), userPrefix) || bytes.IndexByte(n, 0) >= 0 {
			return nil, fmt.Errorf("extended attributes: name %.80q", n)
		}
		out, b = append(out, Attr{string(n), v}), rest
	}
	return out, nil
}

// readAttrs returns the extended attributes of an open file that users can set.
func readAttrs(fd int) ([]Attr, error) {
	size, err := unix.Flistxattr(fd, nil)
	if errors.Is(err, unix.ENOTSUP) || err == nil && size == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	buf := make([]byte, min(size+256, maxAttrs))
	if size, err = unix.Flistxattr(fd, buf); err != nil {
		return nil, err
	}
	var out []Attr
	for name := range strings.SplitSeq(string(buf[:size]), "\x00") {
		if !strings.HasPrefix(name, userPrefix) {
			continue
		}
		value := make([]byte, maxAttrs)
		n, err := unix.Fgetxattr(fd, name, value)
		if errors.Is(err, unix.ENODATA) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, Attr{name, bytes.Clone(value[:n])})
	}
	return out, nil
}

// setAttrs makes the extended attributes of an open file those of want.
func setAttrs(fd int, want []Attr) error {
	has, err := readAttrs(fd)
	if err != nil {
		return err
	}
	for _, a := range has {
		if !slices.ContainsFunc(want, func(w Attr) bool { return w.Name == a.Name }) {
			if err := unix.Fremovexattr(fd, a.Name); err != nil {
				return err
			}
		}
	}
	for _, w := range want {
		if err := unix.Fsetxattr(fd, w.Name, w.Value, 0); err != nil {
			return err
		}
	}
	return nil
}
