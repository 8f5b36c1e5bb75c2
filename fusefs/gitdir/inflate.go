package gitdir

import (
	"bufio"
	"compress/zlib"
	"io"
	"sync"
)

// inflater is what looking into a loose object needs. Making one anew takes 50
// kB and much longer than inflating a small object does.
type inflater struct {
	in, body *bufio.Reader
	z        interface {
		io.ReadCloser
		zlib.Resetter
	}
}

var inflaters = sync.Pool{New: func() any {
	return &inflater{in: bufio.NewReaderSize(nil, 8<<10), body: bufio.NewReaderSize(nil, 8<<10)}
}}

// reset starts with the next object; the error is that of its zlib header.
func (f *inflater) reset(r io.Reader) error {
	f.in.Reset(r)
	if f.z != nil {
		return f.z.Reset(f.in, nil)
	}
	z, err := zlib.NewReader(f.in)
	if err != nil {
		return err
	}
	f.z = z.(interface {
		io.ReadCloser
		zlib.Resetter
	})
	return nil
}

// done keeps it for the next, but no descriptor or context with it.
func (f *inflater) done() {
	f.in.Reset(nil)
	f.body.Reset(nil)
	inflaters.Put(f)
}
