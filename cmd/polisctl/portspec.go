package main

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"polis/daemon/api"
)

// maxRange bounds the ports of a range, as polisd does.
const maxRange = 256

// portSpec is a port or a range of them, of one protocol: 3000, 5000/udp,
// 8000-8010.
type portSpec struct {
	protocol    string
	first, last int
}

func (s portSpec) count() int { return s.last - s.first + 1 }

func (s portSpec) String() string {
	out := strconv.Itoa(s.first)
	if s.last > s.first {
		out += "-" + strconv.Itoa(s.last)
	}
	if s.protocol == api.ProtoUDP {
		out += "/udp"
	}
	return out
}

// parsePortSpec reads one.
func parsePortSpec(field, value string) (portSpec, error) {
	bad := func() (portSpec, error) {
		return portSpec{}, usagef("%s %q is not valid: a port from 1 to %d such as 3000, a range such as 8000-8010, with /udp for UDP", field, clean(api.Shorten(value, 40)), math.MaxUint16)
	}
	numbers, protocol, named := strings.Cut(value, "/")
	if !named {
		protocol = api.ProtoTCP
	}
	if protocol != api.ProtoTCP && protocol != api.ProtoUDP {
		return bad()
	}
	from, to, ranged := strings.Cut(numbers, "-")
	if !ranged {
		to = from
	}
	s := portSpec{protocol: protocol}
	var err1, err2 error
	s.first, err1 = parsePort(field, from)
	s.last, err2 = parsePort(field, to)
	if err1 != nil || err2 != nil || s.last < s.first {
		return bad()
	}
	if s.count() > maxRange {
		return portSpec{}, usagef("%s %q has %d ports: at most %d", field, value, s.count(), maxRange)
	}
	return s, nil
}

// parsePorts reads the values of a repeated flag; each port once.
func parsePorts(field string, values []string) (tcp, udp []int, err error) {
	seen := map[string]bool{}
	for _, v := range values {
		s, err := parsePortSpec(field, v)
		if err != nil {
			return nil, nil, err
		}
		for p := s.first; p <= s.last; p++ {
			one := portSpec{s.protocol, p, p}.String()
			if seen[one] {
				return nil, nil, usagef("%s %s is given twice", field, one)
			}
			if seen[one] = true; len(seen) > maxRange {
				return nil, nil, usagef("%s names more than %d ports", field, maxRange)
			}
			if s.protocol == api.ProtoUDP {
				udp = append(udp, p)
			} else {
				tcp = append(tcp, p)
			}
		}
	}
	return tcp, udp, nil
}

// parseExternal reads where a port or range goes: a port, the first of as many
// as there are internal ones, or a range that is as long.
func parseExternal(value string, internal portSpec) (int, error) {
	s, err := parsePortSpec("external port", value)
	switch {
	case err != nil:
		return 0, err
	case strings.Contains(value, "/") && s.protocol != internal.protocol:
		return 0, usagef("external port %s and internal port %s are of two protocols", s, internal)
	case s.count() != 1 && s.count() != internal.count():
		return 0, usagef("external port %s is %d ports, internal port %s is %d", s, s.count(), internal, internal.count())
	case s.first+internal.count()-1 > math.MaxUint16:
		return 0, usagef("external port %s leaves no room for %d ports", s, internal.count())
	}
	return s.first, nil
}

// parseBind reads the value of --bind.
func parseBind(value string) (string, error) {
	if value == "" {
		return "", nil
	}
	a, err := netip.ParseAddr(value)
	if err != nil || a.Zone() != "" {
		return "", usagef("bind %q is not valid: an IP address of this host, such as 127.0.0.1, ::1 or 0.0.0.0", clean(api.Shorten(value, 40)))
	}
	return a.String(), nil
}

// hostPort is where a map is on the host.
func hostPort(m api.PortMapping) string { return net.JoinHostPort(m.Bind, strconv.Itoa(m.External)) }

// innerPort is what a map leads to, as ports add takes it.
func innerPort(m api.PortMapping) string {
	return portSpec{m.Protocol, m.Internal, m.Internal}.String()
}

// moved reports that a port is not mapped to the requested one.
func moved(m api.PortMapping) string {
	if m.Wanted == 0 {
		return ""
	}
	return fmt.Sprintf("port %d of the host is in use, so port %s of agent %s is at %s", m.Wanted, innerPort(m), m.Agent, hostPort(m))
}
