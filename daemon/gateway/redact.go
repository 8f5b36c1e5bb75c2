package gateway

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
)

// forms returns a key as services and proxies repeat it in errors: as it is, with escapes of JSON or of
// addresses, in hexadecimal digits, and as a part of what is in base64. A form that no service uses by
// accident is not among them: a service has the key, and could send it anywhere.
func forms(key string) [][]byte {
	all := []string{key, strings.ReplaceAll(key, "/", `\/`), url.QueryEscape(key), url.PathEscape(key), hex.EncodeToString([]byte(key)), strings.ToUpper(hex.EncodeToString([]byte(key)))}
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

// redactor reads an answer and replaces the key in it by asterisks. It holds back bytes only while
// they are the beginning of a form of the key, so a stream is not delayed.
type redactor struct {
	r    io.Reader
	keys [][]byte
	held []byte // read, and perhaps the beginning of a key
	out  []byte // to be returned
	err  error
	buf  []byte
}

func newRedactor(r io.Reader, forms [][]byte) io.Reader {
	if len(forms) == 0 {
		return r
	}
	return &redactor{r: r, keys: forms}
}

// Read is part of io.Reader.
func (d *redactor) Read(p []byte) (int, error) {
	for len(d.out) == 0 {
		if d.err != nil {
			return 0, d.err
		}
		if d.buf == nil {
			d.buf = make([]byte, 16<<10+len(slices.MaxFunc(d.keys, func(a, b []byte) int { return len(a) - len(b) })))
		}
		h := copy(d.buf, d.held)
		n, err := d.r.Read(d.buf[h:])
		all := d.buf[:h+n]
		d.err = err
		keep := 0
		for _, key := range d.keys {
			mask(all, key)
			if err == nil {
				keep = max(keep, overlap(all, key))
			}
		}
		d.held = append(d.held[:0], all[len(all)-keep:]...)
		d.out = all[:len(all)-keep]
	}
	n := copy(p, d.out)
	if d.out = d.out[n:]; len(d.out) == 0 {
		return n, d.err // with the last bytes, so that an answer is counted before it is sent
	}
	return n, nil
}

// mask replaces a key in b.
func mask(b, key []byte) {
	for {
		i := bytes.Index(b, key)
		if i < 0 {
			return
		}
		for j := range key {
			b[i+j] = '*'
		}
		b = b[i+len(key):]
	}
}

// overlap is the length of the longest end of b that is a beginning of key, but not all of it.
func overlap(b, key []byte) int {
	for n := min(len(b), len(key)-1); n > 0; n-- {
		if b[len(b)-n] == key[0] && bytes.HasPrefix(key, b[len(b)-n:]) {
			return n
		}
	}
	return 0
}
