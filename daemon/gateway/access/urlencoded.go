package access

import "strings"

// urlencodedFields reads the fields of an URL-encoded form.
type urlencodedFields struct {
	field   func(name, value string) error
	name    []byte
	value   []byte
	inValue bool
	escape  int  // digits of an escape that are missing
	digit   byte // the first of them
}

func (u *urlencodedFields) write(p []byte) error {
	for _, b := range p {
		if err := u.byte(b); err != nil {
			return err
		}
	}
	return nil
}

func (u *urlencodedFields) byte(b byte) error {
	switch h, ok := hex(b); {
	case u.escape > 0 && ok:
		u.escape--
		if u.escape == 1 {
			u.digit = h
			return nil
		}
		u.add(u.digit<<4 | h)
		return nil
	case u.escape > 0:
		u.escape = 0
		u.add('%')
	}
	switch {
	case b == '&' || b == ';': // ";" separates in old versions of Rack, Python and others
		return u.end()
	case b == '=' && !u.inValue:
		u.inValue = true
	case b == '%':
		u.escape = 2
	case b == '+':
		u.add(' ')
	default:
		u.add(b)
	}
	return nil
}

// add adds a byte to the name or the value. Of punctuation before a name, the first and the last byte are kept: as much
// of it as the sender likes is removed by servers.
func (u *urlencodedFields) add(b byte) {
	switch {
	case u.inValue:
		if len(u.value) < maxValue {
			u.value = append(u.value, b)
		}
	case len(u.name) == 2 && punctuation(u.name[0]) && punctuation(u.name[1]) && punctuation(b):
		u.name[1] = b
	case len(u.name) < maxField:
		u.name = append(u.name, b)
	}
}

func (u *urlencodedFields) end() error {
	name, value := string(u.name), string(u.value)
	u.name, u.value, u.inValue, u.escape = u.name[:0], u.value[:0], false, 0
	if len(name) == maxField && strings.IndexFunc(name, func(r rune) bool { return r < 0x80 && !punctuation(byte(r)) }) < 0 {
		return ErrForm // what follows can be any name
	}
	return u.field(name, value)
}

// punctuation reports whether b is of ASCII, and neither a letter nor a digit.
func punctuation(b byte) bool {
	return b < 0x80 && (b < '0' || b > '9') && (b|0x20 < 'a' || b|0x20 > 'z')
}

func hex(b byte) (byte, bool) {
	switch {
	case b >= '0' && b <= '9':
		return b - '0', true
	case b|0x20 >= 'a' && b|0x20 <= 'f':
		return b | 0x20 - 'a' + 10, true
	}
	return 0, false
}
