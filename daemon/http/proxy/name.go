package proxy

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	"polis/daemon/api"
)

// Domain is what all names end in.
const Domain = "polis.localhost"

// target is where a request is meant to go.
type target struct {
	agent string
	port  int // 0: the agent's first web server
}

// kind is what a Host is to us.
type kind int

const (
	foreign kind = iota // a name of another host: DNS rebinding, or a mistake
	home                // the machine itself: the list of what there is
	unknown             // below Domain, but no agent's name
	named               // an agent's
)

// parseHost reads the Host of a request.
func parseHost(host string) (target, kind) {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == Domain || host == "localhost" {
		return target{}, home
	}
	if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil && a.IsLoopback() {
		return target{}, home
	}
	name, ok := strings.CutSuffix(host, "."+Domain)
	if !ok {
		return target{}, foreign
	}
	var t target
	if number, rest, ok := strings.Cut(name, "."); ok {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > 65535 || strconv.Itoa(n) != number {
			return target{}, unknown
		}
		t.port, name = n, rest
	}
	if api.CheckName(name) != nil {
		return target{}, unknown
	}
	t.agent = name
	return t, named
}

// authority is the target as the transport knows it, and dials it.
func (t target) authority() string { return t.agent + ":" + strconv.Itoa(t.port) }

// parseAuthority is the opposite.
func parseAuthority(s string) (target, bool) {
	agent, port, err := net.SplitHostPort(s)
	n, aerr := strconv.Atoi(port)
	if err != nil || aerr != nil || n < 1 || n > 65535 || api.CheckName(agent) != nil {
		return target{}, false
	}
	return target{agent, n}, true
}

// URL is the name of an agent's port at a proxy that listens on port at.
func URL(agent string, internal, at int) string {
	host := strconv.Itoa(internal) + "." + agent + "." + Domain
	if at != 80 {
		host = net.JoinHostPort(host, strconv.Itoa(at))
	}
	return "http://" + host + "/"
}
