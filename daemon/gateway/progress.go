package gateway

import (
	"net/http"
	"time"
)

// progressWriter ends an answer whose reader takes nothing for writeTime.
type progressWriter struct {
	http.ResponseWriter
	rc  *http.ResponseController
	now func() time.Time
	set time.Time // when the deadline was set
}

func newProgressWriter(w http.ResponseWriter) *progressWriter {
	return &progressWriter{ResponseWriter: w, rc: http.NewResponseController(w), now: time.Now}
}

// Unwrap is for http.ResponseController.
func (p *progressWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// Write is part of http.ResponseWriter.
func (p *progressWriter) Write(b []byte) (int, error) {
	if err := p.extend(); err != nil {
		return 0, err
	}
	return p.ResponseWriter.Write(b)
}

// FlushError is for http.ResponseController.
func (p *progressWriter) FlushError() error {
	if err := p.extend(); err != nil {
		return err
	}
	return p.rc.Flush()
}

// extend sets the deadline, at most once in an eighth of writeTime: a stream writes a thousand times a
// second. What is written until then has at least writeTime, too.
func (p *progressWriter) extend() error {
	const again = writeTime / 8
	now := p.now()
	if now.Sub(p.set) < again {
		return nil
	}
	if err := p.rc.SetWriteDeadline(time.Now().Add(writeTime + again)); err != nil {
		return err
	}
	p.set = now
	return nil
}

// end bounds the write of what is left when the handler has returned, and the read of a body that was
// refused: the server reads a part of it before it answers.
func (p *progressWriter) end(body bool) {
	if body {
		_ = p.rc.SetReadDeadline(time.Now().Add(drainTime)) //nolint:errcheck // the connection is closed
	}
	_ = p.rc.SetWriteDeadline(time.Now().Add(writeTime)) //nolint:errcheck // the connection is closed
}
