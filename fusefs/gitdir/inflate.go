package gitdir

import (
	"bufio"
	"compress/zlib"
	"io"
	"sync"
)

// inflater is the state for reading a loose object. Making one allocates 50 kB and takes much
// longer than inflating a small object.
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

// reset begins the next object. The error is that of its zlib header.
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

// done makes the inflater available again. It drops references to the descriptor and the context.
func (f *inflater) done() {
	f.in.Reset(nil)
	f.body.Reset(nil)
	inflaters.Put(f)
}
