package conn

import (
	"bytes"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
)

const (
	headerSize = int(unsafe.Sizeof(fuse.InHeader{}))
	replySize  = int(unsafe.Sizeof(fuse.OutHeader{}))
	// maxName is NAME_MAX; the kernel refuses longer names itself.
	maxName = 255
)

// query is a request that was checked: in has as many bytes as the operation's
// fixed part needs.
type query struct {
	op      *operation
	header  *fuse.InHeader
	in      unsafe.Pointer
	name    [2][]byte // without the final NUL
	payload []byte    // what follows the fixed part and the names
}

// as is the fixed part of a request.
func as[T any](q *query) *T { return (*T)(q.in) }

// decode checks a request from the device. With a status other than OK the header is nil if the
// request cannot be answered.
func decode(b []byte, q *query) fuse.Status {
	*q = query{}
	if len(b) < headerSize {
		return fuse.EIO
	}
	q.in = unsafe.Pointer(unsafe.SliceData(b))
	q.header = (*fuse.InHeader)(q.in)
	if int64(q.header.Length) != int64(len(b)) {
		return fuse.EIO
	}
	if q.header.Opcode >= uint32(len(operations)) || operations[q.header.Opcode].do == nil {
		return fuse.ENOSYS // the caller decides what that means
	}
	op := &operations[q.header.Opcode]
	q.op = op
	// Extensions (security contexts, groups) are not requested.
	end := len(b) - int(q.header.TotalExtlen)*8
	if end < op.in {
		return fuse.EIO
	}
	rest := b[op.in:end]
	for i := range op.names {
		n := bytes.IndexByte(rest, 0)
		if n < 0 {
			return fuse.EIO
		}
		q.name[i] = rest[:n]
		rest = rest[n+1:]
	}
	if len(rest) > 0 && !op.data {
		return fuse.EIO
	}
	q.payload = rest
	return fuse.OK
}
