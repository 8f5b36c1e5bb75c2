package gateway

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
)

var errCompressed = errors.New("the service sent a compressed answer, which was not requested")

// decode makes the body of an answer plain: in a compressed one, neither the tokens nor the key are found.
// Services get no request for compression, but a proxy before one can compress nevertheless.
func decode(resp *http.Response) error {
	switch encoding := strings.ToLower(strings.TrimSpace(strings.Join(resp.Header.Values("Content-Encoding"), ","))); encoding {
	case "", "identity":
		return nil
	case "gzip", "x-gzip":
		resp.Header.Del("Content-Encoding")
		resp.Header.Del("Content-Length")
		resp.ContentLength = -1
		resp.Body = &unzipped{in: resp.Body}
		return nil
	}
	return errCompressed
}

// unzipped is the body of a compressed answer. Its header is read with the body: ModifyResponse must not
// wait for it.
type unzipped struct {
	in io.ReadCloser
	z  *gzip.Reader
}

// Read is part of io.Reader.
func (u *unzipped) Read(p []byte) (int, error) {
	if u.z == nil {
		z, err := gzip.NewReader(u.in)
		if err != nil {
			return 0, err
		}
		u.z = z
	}
	return u.z.Read(p)
}

// Close is part of io.Closer.
func (u *unzipped) Close() error { return u.in.Close() }
