package gateway

import (
	"bytes"
	"io"
)

// redactor reads an answer and replaces the key in it by asterisks. It holds back bytes only while
// they are the beginning of the key, so a stream is not delayed.
type redactor struct {
	r    io.Reader
	key  []byte
	held []byte // read, and perhaps the beginning of the key
	out  []byte // to be returned
	err  error
	buf  []byte
}

func newRedactor(r io.Reader, key string) io.Reader {
	if key == "" {
		return r
	}
	return &redactor{r: r, key: []byte(key)}
}

// Read is part of io.Reader.
func (d *redactor) Read(p []byte) (int, error) {
	for len(d.out) == 0 {
		if d.err != nil {
			return 0, d.err
		}
		if d.buf == nil {
			d.buf = make([]byte, 16<<10+len(d.key))
		}
		h := copy(d.buf, d.held)
		n, err := d.r.Read(d.buf[h:])
		all := d.buf[:h+n]
		d.err = err
		for rest := all; ; {
			i := bytes.Index(rest, d.key)
			if i < 0 {
				break
			}
			for j := range d.key {
				rest[i+j] = '*'
			}
			rest = rest[i+len(d.key):]
		}
		keep := 0
		if err == nil {
			keep = overlap(all, d.key)
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

// overlap is the length of the longest end of b that is a beginning of key, but not all of it.
func overlap(b, key []byte) int {
	for n := min(len(b), len(key)-1); n > 0; n-- {
		if b[len(b)-n] == key[0] && bytes.HasPrefix(key, b[len(b)-n:]) {
			return n
		}
	}
	return 0
}
