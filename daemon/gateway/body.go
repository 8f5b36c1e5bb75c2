package gateway

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// minBodyRate is how fast an agent's program sends a body at least, in bytes per second.
	minBodyRate = 8 << 10
	// bodyCredit is how often bodyTime a program that has sent faster can be waited for.
	bodyCredit = 10
)

var errBody = errors.New("the body was not received in time")

// bodyReader reads the body of a request. Its sender has Gateway.bodyTime for each part, and for all parts together as
// long as they take at minBodyRate, and bodyTime more: a body of a byte now and then must not occupy one of the
// agent's requests. What the service takes to receive it does not count.
type bodyReader struct {
	in   io.ReadCloser
	rc   *http.ResponseController
	each time.Duration
	left time.Duration // that can be waited for
	n    atomic.Int64  // bytes; the transport can read on while the answer is there
	err  atomic.Value  // an error other than io.EOF: the transport can return another one, of the connection that it then closes
	// heard is called after each part, if not nil.
	heard func()
}

func (g *Gateway) newBodyReader(w http.ResponseWriter, r *http.Request, limit int64) *bodyReader {
	return &bodyReader{in: http.MaxBytesReader(w, r.Body, limit), rc: http.NewResponseController(w), each: g.bodyTime, left: g.bodyTime}
}

// Read is part of io.Reader. It returns errBody when the time is over or the sender is gone, *http.MaxBytesError if
// the body is too large, and io.EOF.
func (b *bodyReader) Read(p []byte) (int, error) {
	n, err := b.read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err.CompareAndSwap(nil, bodyError{err})
	}
	return n, err
}

// bodyError has an error of any type: an atomic.Value has one type.
type bodyError struct{ error }

// failed returns the first error of Read that is not io.EOF, or nil.
func (b *bodyReader) failed() error {
	if err, ok := b.err.Load().(bodyError); ok {
		return err.error
	}
	return nil
}

func (b *bodyReader) read(p []byte) (int, error) {
	began := time.Now()
	if err := b.rc.SetReadDeadline(began.Add(min(b.each, b.left))); err != nil {
		return 0, errBody
	}
	n, err := b.in.Read(p)
	b.n.Add(int64(n))
	b.left = min(b.left-time.Since(began)+time.Duration(n)*(time.Second/minBodyRate), bodyCredit*b.each)
	if b.heard != nil {
		b.heard()
	}
	var large *http.MaxBytesError
	switch {
	case errors.Is(err, io.EOF):
		// From here on the server reads the connection to see whether the agent's program is still there.
		if derr := b.rc.SetReadDeadline(time.Time{}); derr != nil {
			return n, errBody
		}
	case err != nil && !errors.As(err, &large):
		return n, errBody
	}
	return n, err
}

// Close is part of io.Closer.
func (b *bodyReader) Close() error { return b.in.Close() }
