package lockd

import (
	"context"
	"fmt"

	"polis/lockd/table"
)

// maxParts bounds the round trips of one Acquire.
const maxParts = 256

// askParts is ask for more keys than a request may have: a file can have thousands of names. The
// parts are taken in sorted order, so that two clients that want the same keys do not deadlock.
// If one is refused, those before it are not used and end with their hold, as any lease.
func (c *Client) askParts(ctx context.Context, r *Request, ws []want) (*Ticket, error) {
	parts, err := r.parts(ws)
	if err != nil {
		return nil, err
	}
	all := &Ticket{client: c}
	for _, p := range parts {
		t, err := c.ask(ctx, r, p)
		if err != nil {
			all.Done()
			return nil, err
		}
		all.entries = append(all.entries, t.entries...)
	}
	return all, nil
}

// parts splits the keys of a request into as many as one may have each.
func (r *Request) parts(ws []want) (out [][]want, err error) {
	for len(ws) > 0 {
		some, size := 0, 0
		for some < len(ws) && some < table.MaxKeys && (some == 0 || size+len(ws[some].path) <= maxRequestBytes) {
			size += len(ws[some].path)
			some++
		}
		if err := r.check(ws[:some]); err != nil {
			return nil, err
		}
		out, ws = append(out, ws[:some]), ws[some:]
	}
	if len(out) > maxParts {
		return nil, fmt.Errorf("%w: the paths of one operation fill %d requests, and %d are the most", ErrLimit, len(out), maxParts)
	}
	return out, nil
}
