package gateway

import (
	"bufio"
	"errors"
	"io"
	"net/http"

	"polis/daemon/gateway/access"
)

// fieldsAhead is how much of a form is checked before any of it is sent, in bytes.
const fieldsAhead = 64 << 10

// checkFields returns the body of a request, which fails at a field that replaces the method. The service then has a
// part of the body, without its end; of a form up to fieldsAhead it has nothing.
func (x *webExchange) checkFields(r *http.Request) (io.ReadCloser, error) {
	if r.ContentLength == 0 {
		return x.body, nil
	}
	checked, err := access.CheckFields(x.body, r.Header["Content-Type"], r.Header["Content-Encoding"], x.allowed)
	if err != nil || checked == io.Reader(x.body) {
		return x.body, err
	}
	ahead := bufio.NewReaderSize(checked, fieldsAhead)
	if _, err := ahead.Peek(fieldsAhead); err != nil && !errors.Is(err, io.EOF) {
		return x.body, err
	}
	return &fieldsBody{Reader: ahead, x: x}, nil
}

// fieldsBody keeps the reason why a body ended early: the transport can return another error.
type fieldsBody struct {
	io.Reader
	x *webExchange
}

// Read is part of io.Reader.
func (f *fieldsBody) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if errors.Is(err, access.ErrField) || errors.Is(err, access.ErrForm) {
		f.x.fields.Store(&err)
	}
	return n, err
}

// Close is part of io.Closer.
func (f *fieldsBody) Close() error { return f.x.body.Close() }
