package netbridge

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// portModel is what must hold of the allocator whatever is done to it.
type portModel struct {
	p     *Ports
	held  map[PortKey]uint16
	taken map[uint16]bool // by others on the machine
}

func drawKey(t *rapid.T) PortKey {
	return PortKey{
		Owner:    rapid.SampledFrom([]string{"alice", "bob", "carol"}).Draw(t, "owner"),
		Proto:    rapid.SampledFrom([]string{"tcp", "udp"}).Draw(t, "proto"),
		Internal: rapid.Uint16Range(3000, 3006).Draw(t, "internal"),
	}
}

func (m *portModel) other(t *rapid.T, k PortKey, port uint16, why string) {
	t.Helper()
	require.GreaterOrEqual(t, port, m.p.first, why)
	require.LessOrEqual(t, port, m.p.last, why)
	for o, n := range m.held {
		if n == port && o != k {
			require.True(t, o.Owner == k.Owner && o.Internal == k.Internal && o.Proto != k.Proto, "%v and %v share %d", k, o, port)
		}
	}
}

func (m *portModel) take(t *rapid.T) {
	k, n := drawKey(t), rapid.SampledFrom([]int{1, 1, 1, 2, 4}).Draw(t, "count")
	want := rapid.SampledFrom([]uint16{0, 0, m.p.first, m.p.last, m.p.first + 2, m.p.first - 1, 65535}).Draw(t, "want")
	old, had := m.held[k]
	first, err := m.p.Take(k, n, want, func(p uint16) bool { return m.taken[p] })
	if n == 1 && had && err == nil && (want == 0 || want == old) {
		require.Equal(t, old, first, "an owner keeps its port")
		return
	}
	if n == 1 && had {
		delete(m.held, k) // another was wanted
	}
	if err != nil {
		if n > 1 {
			for i := range n {
				if _, has := m.held[k.plus(i)]; has {
					require.ErrorIs(t, err, ErrPortInUse)
					return
				}
			}
		}
		require.ErrorIs(t, err, ErrNoPorts)
		require.False(t, m.room(k, n), "there was room for %d", n)
		return
	}
	for i := range n {
		require.False(t, m.taken[first+uint16(i)], "taken by others")
		m.other(t, k.plus(i), first+uint16(i), "in a row")
		m.held[k.plus(i)] = first + uint16(i)
	}
}

// room looks for room in the simplest way there is.
func (m *portModel) room(k PortKey, n int) bool {
	for at := int(m.p.first); at+n-1 <= int(m.p.last); at++ {
		fits := true
		for i := range n {
			port := uint16(at + i)
			fits = fits && !m.taken[port]
			for o, p := range m.held {
				fits = fits && (p != port || o.sibling(k.plus(i)))
			}
		}
		if fits {
			return true
		}
	}
	return false
}

// Feature: multi-agent-workspaces, Property 9: Port Mapping Uniqueness
// Feature: multi-agent-workspaces, Property 10: Port Range Validity
func TestPortsAreUniqueInRangeAndReleased(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.Uint16Range(2, 65500).Draw(t, "first")
		p, err := NewPorts(first, first+uint16(rapid.IntRange(0, 12).Draw(t, "size")))
		require.NoError(t, err)
		m := &portModel{p: p, held: map[PortKey]uint16{}, taken: map[uint16]bool{}}
		t.Repeat(map[string]func(*rapid.T){
			"take": m.take,
			"claim": func(t *rapid.T) {
				k, port := drawKey(t), rapid.Uint16Range(first-1, first+13).Draw(t, "port")
				switch err := p.Claim(k, port); {
				case port < p.first || port > p.last:
					require.ErrorIs(t, err, ErrPortRange)
				case err != nil:
					require.ErrorIs(t, err, ErrPortInUse)
					require.NotEqual(t, port, m.held[k])
				default:
					m.other(t, k, port, "claimed")
					m.held[k] = port
				}
			},
			"release": func(t *rapid.T) { k := drawKey(t); p.Release(k); delete(m.held, k) },
			"forget":  func(t *rapid.T) { k := drawKey(t); p.Forget(k); delete(m.held, k) },
			"remember": func(t *rapid.T) {
				p.Remember(drawKey(t), rapid.Uint16Range(first-1, first+13).Draw(t, "port"))
			},
			"an agent is removed": func(t *rapid.T) {
				owner := drawKey(t).Owner
				p.ForgetOwner(owner)
				for k := range m.held {
					if k.Owner == owner {
						delete(m.held, k)
					}
				}
			},
			"others on the machine": func(t *rapid.T) {
				port := rapid.Uint16Range(first, first+12).Draw(t, "port")
				m.taken[port] = !m.taken[port]
			},
			"": func(t *rapid.T) { require.Equal(t, m.held, p.Held()) },
		})
	})
}

func TestPortsComeBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := NewPorts(FirstPort, FirstPort+200)
		require.NoError(t, err)
		had := map[PortKey]uint16{}
		for range rapid.IntRange(1, 20).Draw(t, "maps") {
			k := drawKey(t)
			port, err := p.Take(k, 1, 0, nil)
			require.NoError(t, err)
			had[k] = port
		}
		for k := range had {
			p.Release(k)
		}
		// The order in which agents return, with newcomers in between, makes no difference.
		for i := range rapid.IntRange(0, 20).Draw(t, "newcomers") {
			_, err := p.Take(PortKey{"dave", "tcp", uint16(1 + i)}, 1, 0, nil)
			require.NoError(t, err)
		}
		for k, port := range had {
			got, err := p.Take(k, 1, 0, nil)
			require.NoError(t, err)
			require.Equal(t, port, got, "%v", k)
		}
	})
}

func TestPortsTakeWhatIsWantedOrTheNext(t *testing.T) {
	p, err := NewPorts(3001, 3010)
	require.NoError(t, err)
	take := func(k PortKey, n int, want uint16, taken ...uint16) uint16 {
		t.Helper()
		port, err := p.Take(k, n, want, func(p uint16) bool {
			for _, t := range taken {
				if t == p {
					return true
				}
			}
			return false
		})
		require.NoError(t, err)
		return port
	}
	alice := func(n uint16) PortKey { return PortKey{"alice", "tcp", n} }
	require.EqualValues(t, 3001, take(alice(3000), 1, 0), "the lowest")
	require.EqualValues(t, 3001, take(PortKey{"alice", "udp", 3000}, 1, 0), "both protocols of a port go together")
	require.EqualValues(t, 3006, take(PortKey{"bob", "tcp", 3000}, 1, 3005, 3005), "the next")
	require.EqualValues(t, 3002, take(PortKey{"bob", "udp", 9}, 1, 3001), "not what another port has, in any protocol")
	require.EqualValues(t, 3007, take(alice(8000), 4, 0), "in a row")
	require.EqualValues(t, 3003, take(PortKey{"carol", "tcp", 1}, 3, 3010), "from the start when the end is reached")
	_, err = p.Take(alice(9), 1, 0, nil)
	require.ErrorIs(t, err, ErrNoPorts)
	require.ErrorContains(t, err, "3001-3010")
	p.Release(alice(8001))
	require.EqualValues(t, 3008, take(alice(9), 1, 0), "what is only remembered is given when nothing else is left")
	_, err = p.Take(alice(8000), 2, 0, nil)
	require.ErrorIs(t, err, ErrPortInUse, "no part of it is mapped already")
}

func TestPortsAtTheEndOfTheNumbers(t *testing.T) {
	p, err := NewPorts(65535, 65535)
	require.NoError(t, err)
	n, err := p.Take(PortKey{"a", "tcp", 1}, 1, 65535, nil)
	require.NoError(t, err)
	require.Equal(t, uint16(65535), n)
	_, err = p.Take(PortKey{"b", "tcp", 1}, 1, 0, nil)
	require.ErrorIs(t, err, ErrNoPorts)
	for _, bad := range [][2]uint16{{0, 10}, {10, 9}} {
		_, err := NewPorts(bad[0], bad[1])
		require.ErrorIs(t, err, ErrPortRange)
	}
	for _, bad := range []struct {
		internal uint16
		n        int
	}{{0, 1}, {1, 0}, {65535, 2}, {1, -1}, {1, 65536}} {
		_, err := p.Take(PortKey{"a", "tcp", bad.internal}, bad.n, 0, nil)
		require.ErrorIs(t, err, ErrPortRange, fmt.Sprint(bad))
	}
}

func TestARowOfPortsFindsTheNumberItsSiblingHas(t *testing.T) {
	p, err := NewPorts(2, 6)
	require.NoError(t, err)
	require.NoError(t, p.Claim(PortKey{"carol", "tcp", 3003}, 5))
	first, err := p.Take(PortKey{"carol", "udp", 3001}, 4, 0, nil)
	require.NoError(t, err)
	require.EqualValues(t, 3, first)
}
