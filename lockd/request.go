package lockd

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"polis/lockd/table"
)

// Request requests the leases of one operation, all or nothing.
type Request struct {
	// Paths are keys as FileKey and RefKey make them; Trees also claim
	// everything below.
	Paths, Trees []string
	// Op and Pid identify the requester, for requests that are refused because of it.
	Op  string
	Pid uint32
	// Mode is Write unless set.
	Mode Mode
}

// want is one key of a request.
type want struct {
	path string
	tree bool
	mode Mode
	hold Hold
	wait time.Duration
}

// maxRequestBytes keeps every request within a frame, whatever its bytes.
const maxRequestBytes = 128 << 10

// wants returns the keys sorted, each path once.
func (r *Request) wants() ([]want, error) {
	mode := r.Mode
	if mode == "" {
		mode = Write
	}
	out := make([]want, 0, len(r.Paths)+len(r.Trees))
	for _, p := range r.Paths {
		out = append(out, want{path: p, mode: mode})
	}
	for _, p := range r.Trees {
		out = append(out, want{path: p, mode: mode, tree: true})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: no paths", ErrInvalid)
	}
	if len(out) > 1 {
		slices.SortFunc(out, func(a, b want) int { return cmp.Compare(a.path, b.path) })
		n := 0
		for _, w := range out[1:] {
			if out[n].path == w.path {
				out[n].tree = out[n].tree || w.tree
				continue
			}
			n++
			out[n] = w
		}
		out = out[:n+1]
	}
	return out, nil
}

func (r *Request) check(ws []want) error {
	if len(ws) > table.MaxKeys || len(r.Op) > table.MaxName {
		return fmt.Errorf("%w: %d paths for %q", ErrInvalid, len(ws), r.Op)
	}
	if r.Mode != "" && r.Mode != Read && r.Mode != Write {
		return fmt.Errorf("%w: mode %q", ErrInvalid, r.Mode)
	}
	for _, w := range ws {
		if err := table.CheckPath(w.path); err != nil {
			return err
		}
	}
	if size := sizeOf(ws); size > maxRequestBytes {
		return fmt.Errorf("%w: %d bytes of paths", ErrInvalid, size)
	}
	return nil
}

func sizeOf(ws []want) (bytes int) {
	for i := range ws {
		bytes += len(ws[i].path)
	}
	return bytes
}

// Ticket is what an operation holds while it may write. The leases stay at
// least until Done.
type Ticket struct {
	client  *Client
	entries []*entry
	ends    bool // Compare.Ends
	over    atomic.Bool
}

// Done ends the operation (its handle is closed). It does not block; further calls do nothing.
func (t *Ticket) Done() {
	if t.over.CompareAndSwap(false, true) {
		t.client.unpinAll(t.entries, t.ends)
	}
}

// Valid reports whether the leases are still known to be held: none was broken, and the last
// contact to the server is within StaleTimeout.
func (t *Ticket) Valid() bool {
	if !t.client.trusted() {
		return false
	}
	for _, e := range t.entries {
		if e.lost.Load() {
			return false
		}
	}
	return true
}

// Token returns the highest fencing token of the ticket's leases.
func (t *Ticket) Token() uint64 {
	var n uint64
	for _, e := range t.entries {
		n = max(n, e.token.Load())
	}
	return n
}
