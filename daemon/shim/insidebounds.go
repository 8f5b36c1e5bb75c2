package shim

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"polis/daemon/api"
)

// Limits of the connections that an agent may have to its shim, which also serves its files.
const (
	maxInside = 256              // connections at a time
	bodyTime  = 10 * time.Second // for the body of a request, and for its header
)

// atMost closes connections beyond n.
func atMost(n int64) func(net.Conn, http.ConnState) {
	var open atomic.Int64
	return func(c net.Conn, st http.ConnState) {
		switch st {
		case http.StateNew:
			if open.Add(1) > n {
				_ = c.Close() //nolint:errcheck // no request was read yet
			}
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
	}
}

// wholeBody reads the body before it calls the handler: the time for the body is limited, the
// handler's time is not.
func wholeBody(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		conn := insideOf(r.Context())
		conn.begin()
		ctl := http.NewResponseController(w)
		if err := ctl.SetReadDeadline(time.Now().Add(bodyTime)); err != nil {
			return err
		}
		b, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
		if err != nil {
			return api.Errorf(api.CodeBadRequest, "request body: %w", err)
		}
		if len(b) > maxBody {
			return api.Errorf(api.CodeTooLarge, "the request body has more than %d bytes", maxBody)
		}
		r.Body = io.NopCloser(bytes.NewReader(b))
		if err := ctl.SetReadDeadline(time.Time{}); err != nil {
			return err
		}
		defer conn.wait()()
		return h(w, r)
	}
}
