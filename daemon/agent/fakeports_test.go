package agent

import (
	"context"
	"errors"

	"polis/daemon/api"
	"polis/netbridge"
)

// fakePorts is the daemon's allocator with a host that the test decides on.
type fakePorts struct {
	pool *netbridge.Ports
	// taken are ports of the host that other programs have.
	taken map[int]bool
}

func newFakePorts(lo, hi int) fakePorts {
	p, err := netbridge.NewPorts(uint16(lo), uint16(hi))
	if err != nil {
		panic(err)
	}
	return fakePorts{p, map[int]bool{}}
}

func netKey(k PortKey) netbridge.PortKey {
	return netbridge.PortKey{Owner: k.Agent, Proto: k.Protocol, Internal: uint16(k.Internal)}
}

func (f fakePorts) Take(_ context.Context, k PortKey, _ string, n, want int) (int, error) {
	p, err := f.pool.Take(netKey(k), n, uint16(want), func(p uint16) bool { return f.taken[int(p)] })
	if errors.Is(err, netbridge.ErrNoPorts) {
		return 0, api.Errorf(api.CodeNoPorts, "%w", err)
	}
	return int(p), err
}
func (f fakePorts) Adopt(k PortKey, external int) error {
	return f.pool.Claim(netKey(k), uint16(external))
}
func (f fakePorts) Release(k PortKey)                { f.pool.Release(netKey(k)) }
func (f fakePorts) Forget(k PortKey)                 { f.pool.Forget(netKey(k)) }
func (f fakePorts) ForgetAgent(agent string)         { f.pool.ForgetOwner(agent) }
func (f fakePorts) Remember(k PortKey, external int) { f.pool.Remember(netKey(k), uint16(external)) }
