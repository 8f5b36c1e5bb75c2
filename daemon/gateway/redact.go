package gateway

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html"
	"html/template"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// forms returns a key as services and proxies repeat it in errors: as it is, with escapes of JSON, of HTML or of
// addresses, in hexadecimal digits, and as a part of what is in base64. A form that no service uses by
// accident is not among them: a service has the key, and could send it anywhere.
func forms(key string) [][]byte {
	all := []string{key, strings.ReplaceAll(key, "/", `\/`), hex.EncodeToString([]byte(key)), strings.ToUpper(hex.EncodeToString([]byte(key)))}
	for _, escaped := range []string{url.QueryEscape(key), url.PathEscape(key), strings.ReplaceAll(url.QueryEscape(key), "~", "%7E")} {
		all = append(all, escaped, escape.ReplaceAllStringFunc(escaped, strings.ToLower))
	}
	all = append(all, html.EscapeString(key), template.HTMLEscapeString(key), strings.ReplaceAll(html.EscapeString(key), "+", "&#43;"))
	// What encoders of JSON write by its number: none of them, those of Go and Ruby, of PHP, of Java and of .NET.
	for _, numbered := range []string{"", "<>&", "<>&'\"", "<>&'=", "\"<>&'+`"} {
		for _, number := range []string{`\u%04x`, `\u%04X`} {
			all = append(all, inJSON(key, numbered, number, "/"), inJSON(key, numbered, number, `\/`))
		}
	}
	var upper, lower strings.Builder
	for _, c := range []byte(key) {
		fmt.Fprintf(&upper, "%%%02X", c)
		fmt.Fprintf(&lower, "%%%02x", c)
	}
	all = append(all, upper.String(), lower.String())
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 { // bytes before it, of which the digits depend
			digits := encoding.EncodeToString(append(make([]byte, before), key...))
			all = append(all, digits[(before*8+5)/6:(before+len(key))*8/6])
		}
	}
	slices.Sort(all)
	var out [][]byte
	for _, f := range slices.Compact(all) {
		out = append(out, []byte(f))
	}
	return out
}

// escape is one of an address.
var escape = regexp.MustCompile(`%[0-9A-F]{2}`)

// inJSON writes a key as a part of a text in JSON: some characters by their number, and the slash in this form.
func inJSON(key, numbered, number, slash string) string {
	var out strings.Builder
	for _, c := range key {
		switch {
		case strings.ContainsRune(numbered, c):
			fmt.Fprintf(&out, number, c)
		case c == '"' || c == '\\':
			out.WriteString(`\` + string(c))
		case c == '/':
			out.WriteString(slash)
		default:
			out.WriteRune(c)
		}
	}
	return out.String()
}

// redactor reads an answer and replaces the key in it by asterisks. It holds back bytes only while
// they are the beginning of a form of the key, so a stream is not delayed.
type redactor struct {
	r    io.Reader
	keys *search
	held []byte // read, and perhaps the beginning of a key
	out  []byte // to be returned
	err  error
	buf  []byte
}

func newRedactor(r io.Reader, keys *search) io.Reader {
	if len(keys.forms) == 0 {
		return r
	}
	return &redactor{r: r, keys: keys}
}

// Read is part of io.Reader.
func (d *redactor) Read(p []byte) (int, error) {
	for len(d.out) == 0 {
		if d.err != nil {
			return 0, d.err
		}
		if d.buf == nil {
			d.buf = make([]byte, 16<<10+d.keys.longest)
		}
		h := copy(d.buf, d.held)
		n, err := d.r.Read(d.buf[h:])
		all := d.buf[:h+n]
		d.err = err
		keep := len(all) - d.keys.mask(all, err == nil)
		d.held = append(d.held[:0], all[len(all)-keep:]...)
		d.out = all[:len(all)-keep]
	}
	n := copy(p, d.out)
	if d.out = d.out[n:]; len(d.out) == 0 {
		return n, d.err // with the last bytes, so that an answer is counted before it is sent
	}
	return n, nil
}

// search finds the forms of a key in one pass: nearly no text has two bytes that one of them begins with.
type search struct {
	forms   [][]byte
	longest int
	first   [256]bool
	pairs   [1 << 16 / 64]uint64 // a bit for each two bytes
}

func newSearch(forms [][]byte) *search {
	s := &search{}
	for _, f := range forms {
		if len(f) == 0 {
			continue
		}
		s.forms = append(s.forms, f)
		s.longest = max(s.longest, len(f))
		s.first[f[0]] = true
		for c := range 256 {
			if len(f) == 1 || f[1] == byte(c) {
				pair := uint(f[0])<<8 | uint(c)
				s.pairs[pair/64] |= 1 << (pair % 64)
			}
		}
	}
	return s
}

// mask replaces the forms in b. With more, it returns where an end of b begins that may be the beginning of
// a form, else the length of b. What was replaced begins no other form.
func (s *search) mask(b []byte, more bool) (end int) {
	var from, to int // found, and not replaced yet: another form can overlap it
	last := len(b) - 1
	for i := 0; i <= last; i++ {
		if i < last {
			if pair := uint(b[i])<<8 | uint(b[i+1]); s.pairs[pair/64]&(1<<(pair%64)) == 0 {
				continue
			}
		} else if !s.first[b[i]] {
			continue
		}
		partly := false
		for _, f := range s.forms {
			switch {
			case bytes.HasPrefix(b[i:], f):
				if i >= to {
					fill(b[from:to])
					from = i
				}
				to = max(to, i+len(f))
			case more && i >= to && bytes.HasPrefix(f, b[i:]):
				partly = true
			}
		}
		if partly && i >= to {
			fill(b[from:to])
			return i
		}
	}
	fill(b[from:to])
	return len(b)
}

func fill(b []byte) {
	for i := range b {
		b[i] = '*'
	}
}
