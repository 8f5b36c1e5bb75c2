package access

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// What the header of a part can have: bytes, names, and bytes of a name.
const (
	maxPartHeader = 16 << 10
	maxPartNames  = 32
	maxPartName   = 1 << 10
)

// multipartFields reads the names of the parts of a form. Servers differ in what they accept as a
// delimiter and as the end of a header: here every line that begins with the delimiter is one, and a header must have
// one form.
type multipartFields struct {
	field     func(name, value string) error
	delimiter string
	midLine   bool   // what comes cannot be a delimiter
	line      []byte // the beginning of a line, as long as it can be a delimiter
	inHeader  bool
	header    []byte
	names     []string // of the part whose value comes
	value     []byte
}

func (m *multipartFields) write(p []byte) error {
	for _, b := range p {
		var err error
		if m.inHeader {
			err = m.headerByte(b)
		} else {
			err = m.bodyByte(b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *multipartFields) bodyByte(b byte) error {
	if b == '\r' || b == '\n' {
		m.midLine, m.line = false, m.line[:0]
		return m.endValue()
	}
	if len(m.names) > 0 && len(m.value) < maxValue {
		m.value = append(m.value, b)
	}
	if m.midLine {
		return nil
	}
	m.line = append(m.line, b)
	m.midLine = m.delimiter[len(m.line)-1] != b
	if m.midLine || len(m.line) < len(m.delimiter) {
		return nil
	}
	m.line, m.names = m.line[:0], nil // an empty value is none
	m.inHeader, m.header = true, m.header[:0]
	return nil
}

// headerByte adds a byte of the header of a part, which begins with the rest of the delimiter's line.
func (m *multipartFields) headerByte(b byte) error {
	n := len(m.header)
	cr := n > 0 && m.header[n-1] == '\r'
	if cr != (b == '\n') || b < ' ' && b != '\r' && b != '\n' && b != '\t' || n >= maxPartHeader {
		return fmt.Errorf("%w: the header of a part", ErrForm)
	}
	m.header = append(m.header, b)
	if !bytes.HasSuffix(m.header, []byte("\r\n\r\n")) {
		return nil
	}
	m.inHeader, m.midLine = false, false
	return m.readHeader()
}

func (m *multipartFields) readHeader() error {
	_, header, _ := strings.Cut(string(m.header), "\r\n")
	header = strings.NewReplacer("\r\n ", " ", "\r\n\t", " ").Replace(header)
	names, err := partNames(header)
	if err != nil {
		return err
	}
	for _, n := range names {
		if replacementOf(n) == noReplacement {
			continue
		}
		if strings.Contains(strings.ToLower(header), "content-transfer-encoding") {
			return ErrField // its value can be any
		}
		m.names = append(m.names, n)
	}
	m.value = m.value[:0]
	return nil
}

// endValue compares the first line of a value.
func (m *multipartFields) endValue() error {
	names := m.names
	m.names = nil
	for _, n := range names {
		if err := m.field(n, string(m.value)); err != nil {
			return err
		}
	}
	return nil
}

func (m *multipartFields) end() error { return m.endValue() }

// nameParameter is the parameter "name" of a header; "filename" is another one.
var nameParameter = regexp.MustCompile(`(?i)(?:^|[^a-z0-9_-])name[ \t]*(\*[^=]*)?=[ \t]*`)

// partNames returns what servers can take for the name of a part: they differ in how they read quotes.
func partNames(header string) ([]string, error) {
	var out []string
	for at := 0; len(out) <= maxPartNames; {
		m := nameParameter.FindStringSubmatchIndex(header[at:])
		if m == nil {
			return out, nil
		}
		rest := header[at+m[1]:]
		if m[2] >= 0 || strings.HasPrefix(rest, "=?") || strings.HasPrefix(rest, `"=?`) {
			return nil, fmt.Errorf("%w: a name in another encoding", ErrForm)
		}
		at += m[1]
		line, _, _ := strings.Cut(rest, "\r\n")
		word, _, _ := strings.Cut(line, ";")
		out = append(out, strings.Trim(word, "\"' \t"))
		if quote := line[:min(1, len(line))]; quote == `"` || quote == `'` {
			text, _, _ := strings.Cut(line[1:], quote)
			out = append(out, strings.Trim(text, " \t"), unquote(line[1:], quote[0]))
		}
		if slices.ContainsFunc(out, func(n string) bool { return len(n) > maxPartName }) {
			break
		}
	}
	return nil, fmt.Errorf("%w: at most %d names of %d bytes in a part", ErrForm, maxPartNames, maxPartName)
}

// unquote reads a quoted string (RFC 9110, section 5.6.4) after its first quote.
func unquote(s string, quote byte) string {
	var b strings.Builder
	for i := 0; i < len(s) && s[i] != quote; i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return strings.TrimSpace(b.String())
}
