package netbridge

import (
	"fmt"
	"slices"
	"sync"
)

// The default range of external ports.
const (
	FirstPort = 3001
	LastPort  = 9999
)

// PortKey is the target of a port map: a port of an owner, for one protocol.
type PortKey struct {
	Owner    string
	Proto    string // "tcp" or "udp"
	Internal uint16
}

// sibling reports whether both are the same port for different protocols: these two, and no
// others, may share an external number.
func (k PortKey) sibling(o PortKey) bool {
	return k.Owner == o.Owner && k.Internal == o.Internal && k.Proto != o.Proto
}

func (k PortKey) plus(i int) PortKey {
	k.Internal += uint16(i)
	return k
}

// Ports allocates external ports: each number to one owner's port, in a range. It remembers which
// number a key had, and returns the same again as long as it is free. It is pure memory; the
// caller's taken reports whether the host can bind a port, and its Forwarder has the last word.
type Ports struct {
	first, last uint16

	mu    sync.Mutex
	held  map[PortKey]uint16
	users map[uint16][]PortKey // of a number: one key, or two siblings
	known map[PortKey]uint16   // what a key had last, held or not
}

// NewPorts allocates from first to last, both included.
func NewPorts(first, last uint16) (*Ports, error) {
	if first == 0 || last < first {
		return nil, fmt.Errorf("%w: %d-%d is no range", ErrPortRange, first, last)
	}
	return &Ports{first: first, last: last, held: map[PortKey]uint16{}, users: map[uint16][]PortKey{}, known: map[PortKey]uint16{}}, nil
}

// Take allocates n consecutive external ports for n consecutive internal ports, from k on, and
// returns the first: want if that is free, else what k had before, else what k's sibling has,
// else the lowest free ones (those above want first) that no other key remembers, else the lowest
// free ones. want may be 0.
//
// taken, which may be nil, reports what other programs on the machine hold; it is called under
// the allocator's lock and must not call back. A key that holds a port keeps it, unless another
// is wanted.
func (p *Ports) Take(k PortKey, n int, want uint16, taken func(port uint16) bool) (uint16, error) {
	if n < 1 || int(k.Internal)+n-1 > 65535 || k.Internal == 0 {
		return 0, fmt.Errorf("%w: %d ports from %d", ErrPortRange, n, k.Internal)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if old, ok := p.held[k]; ok && n == 1 {
		if want == 0 || want == old {
			return old, nil
		}
		p.release(k)
	}
	for i := range n {
		if old, ok := p.held[k.plus(i)]; ok {
			return 0, fmt.Errorf("%w: port %d has external port %d already", ErrPortInUse, k.plus(i).Internal, old)
		}
	}
	s := search{p: p, k: k, n: n, taken: map[uint16]bool{}, ask: taken}
	at, ok := s.find(want)
	if !ok {
		return 0, fmt.Errorf("%w %d-%d", ErrNoPorts, p.first, p.last)
	}
	for i := range n {
		p.hold(k.plus(i), at+uint16(i))
	}
	return at, nil
}

// search finds n consecutive free ports.
type search struct {
	p     *Ports
	k     PortKey
	n     int
	ask   func(uint16) bool
	taken map[uint16]bool
	// others are the numbers that other keys remember; nil ignores them.
	others map[uint16]bool
}

func (s *search) find(want uint16) (uint16, bool) {
	sibling := PortKey{Owner: s.k.Owner, Internal: s.k.Internal, Proto: "tcp"}
	if s.k.Proto == "tcp" {
		sibling.Proto = "udp"
	}
	for _, at := range []uint16{want, s.p.known[s.k], s.p.known[sibling]} {
		if at != 0 && s.fits(int(at)) < 0 {
			return at, true
		}
	}
	s.others = map[uint16]bool{}
	for k, port := range s.p.known {
		if k.Owner != s.k.Owner || int(k.Internal) < int(s.k.Internal) || int(k.Internal) >= int(s.k.Internal)+s.n {
			s.others[port] = true
		}
	}
	for range 2 {
		if want >= s.p.first && want < s.p.last {
			if at, ok := s.scan(int(want) + 1); ok {
				return at, true
			}
		}
		if at, ok := s.scan(int(s.p.first)); ok {
			return at, true
		}
		s.others = nil
	}
	return 0, false
}

// scan finds the lowest free ports from a number on.
func (s *search) scan(from int) (uint16, bool) {
	for at := from; at+s.n-1 <= int(s.p.last); {
		bad := s.fits(at)
		switch {
		case bad < 0:
			return uint16(at), true
		case s.shared(uint16(bad)):
			at++
		default:
			at = bad + 1
		}
	}
	return 0, false
}

// shared reports whether a number that blocks one of the ports belongs to the sibling of another
// of them: a little further on it blocks none.
func (s *search) shared(number uint16) bool {
	return slices.ContainsFunc(s.p.users[number], func(o PortKey) bool {
		first := int(s.k.Internal)
		return int(o.Internal) >= first && int(o.Internal) < first+s.n && s.k.plus(int(o.Internal)-first).sibling(o)
	})
}

// fits returns the last number that blocks n ports from at on, or -1.
func (s *search) fits(at int) int {
	for i := s.n - 1; i >= 0; i-- {
		if !s.free(s.k.plus(i), at+i) {
			return at + i
		}
	}
	return -1
}

func (s *search) free(k PortKey, number int) bool {
	if number < int(s.p.first) || number > int(s.p.last) {
		return false
	}
	port := uint16(number)
	if s.others[port] || !s.p.open(k, port) {
		return false
	}
	if s.ask == nil {
		return true
	}
	t, asked := s.taken[port]
	if !asked {
		t = s.ask(port)
		s.taken[port] = t
	}
	return !t
}

// open reports whether k may have port; p.mu is held.
func (p *Ports) open(k PortKey, port uint16) bool {
	return !slices.ContainsFunc(p.users[port], func(o PortKey) bool { return !k.sibling(o) })
}

func (p *Ports) hold(k PortKey, port uint16) {
	p.held[k], p.known[k] = port, port
	p.users[port] = append(p.users[port], k)
}

func (p *Ports) release(k PortKey) {
	port, ok := p.held[k]
	if !ok {
		return
	}
	delete(p.held, k)
	if rest := slices.DeleteFunc(slices.Clone(p.users[port]), func(o PortKey) bool { return o == k }); len(rest) > 0 {
		p.users[port] = rest
	} else {
		delete(p.users, port)
	}
}

// Claim allocates one particular port for k, which serves it already.
func (p *Ports) Claim(k PortKey, port uint16) error {
	if port < p.first || port > p.last {
		return fmt.Errorf("%w: %d is not in %d-%d", ErrPortRange, port, p.first, p.last)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held[k] == port {
		return nil
	}
	if !p.open(k, port) {
		return fmt.Errorf("%w: %d", ErrPortInUse, port)
	}
	p.release(k)
	p.hold(k, port)
	return nil
}

// Release gives a key's port back and remembers it; without a port it is
// ignored.
func (p *Ports) Release(k PortKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release(k)
}

// Remember records which port a key had, unless one is recorded.
func (p *Ports) Remember(k PortKey, port uint16) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.known[k]; !ok && port >= p.first && port <= p.last {
		p.known[k] = port
	}
}

// Forget releases a key's port and removes its record.
func (p *Ports) Forget(k PortKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release(k)
	delete(p.known, k)
}

// ForgetOwner forgets all keys of an owner.
func (p *Ports) ForgetOwner(owner string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range p.known { // what is held is known
		if k.Owner == owner {
			p.release(k)
			delete(p.known, k)
		}
	}
}

// Held returns which ports are given out.
func (p *Ports) Held() map[PortKey]uint16 {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[PortKey]uint16, len(p.held))
	for k, port := range p.held {
		out[k] = port
	}
	return out
}
