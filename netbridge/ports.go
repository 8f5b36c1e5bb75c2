package netbridge

import (
	"fmt"
	"slices"
	"sync"
)

// The range that external ports come from unless configured.
const (
	FirstPort = 3001
	LastPort  = 9999
)

// Ports hands out external ports: unique, in a range, the lowest free one
// first. It is pure memory; whether the host lets a port be bound is what the
// caller's Forwarder finds out.
type Ports struct {
	first, last uint16

	mu   sync.Mutex
	used map[uint16]bool
}

// NewPorts allocates from first to last, both included.
func NewPorts(first, last uint16) (*Ports, error) {
	if first == 0 || last < first {
		return nil, fmt.Errorf("%w: %d-%d is no range", ErrPortRange, first, last)
	}
	return &Ports{first: first, last: last, used: map[uint16]bool{}}, nil
}

// Next takes the lowest free port for which taken, which may be nil, is false:
// taken says what others on the machine hold. It is called under the
// allocator's lock and must not call back.
func (p *Ports) Next(taken func(port uint16) bool) (uint16, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for port := int(p.first); port <= int(p.last); port++ { // int: last may be 65535
		n := uint16(port)
		if !p.used[n] && (taken == nil || !taken(n)) {
			p.used[n] = true
			return n, nil
		}
	}
	return 0, fmt.Errorf("%w %d-%d", ErrNoPorts, p.first, p.last)
}

// Claim takes one particular port.
func (p *Ports) Claim(port uint16) error {
	if port < p.first || port > p.last {
		return fmt.Errorf("%w: %d is not in %d-%d", ErrPortRange, port, p.first, p.last)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used[port] {
		return fmt.Errorf("%w: %d", ErrPortInUse, port)
	}
	p.used[port] = true
	return nil
}

// Release gives a port back; one that is not taken is ignored.
func (p *Ports) Release(port uint16) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.used, port)
}

// Used lists the ports taken, in order.
func (p *Ports) Used() []uint16 {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]uint16, 0, len(p.used))
	for n := range p.used {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}
