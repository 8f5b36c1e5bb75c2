package main

import (
	"strconv"
	"strings"

	"polis/daemon/api"
)

// maxHostPorts bounds what --host-port names, as polisd does.
const maxHostPorts = 64

// hostPorts reads the words of --host-port: nil for no word, empty for "none".
func hostPorts(words []string) ([]uint16, error) {
	if len(words) == 0 {
		return nil, nil
	}
	out := []uint16{}
	if len(words) == 1 && words[0] == "none" {
		return out, nil
	}
	if len(words) > maxHostPorts {
		return nil, usagef("--host-port has %d ports: at most %d", len(words), maxHostPorts)
	}
	for _, w := range words {
		n, err := strconv.ParseUint(strings.TrimSpace(w), 10, 16)
		if err != nil || n == 0 {
			return nil, usagef("--host-port %q: must be a port from 1 to 65535", api.Shorten(w, 32)).WithHint("none opens no port of the host; agents set also knows default")
		}
		out = append(out, uint16(n))
	}
	return out, nil
}

// hostPortWords reads the words of agents set: a list, or, with a sign at each, ports to add to the agent's and to
// take from them.
func hostPortWords(words []string) (list, add, remove []uint16, err error) {
	var more, less, rest []string
	for _, w := range words {
		w = strings.TrimSpace(w)
		if p, ok := strings.CutPrefix(w, "+"); ok {
			more = append(more, p)
		} else if p, ok := strings.CutPrefix(w, "-"); ok {
			less = append(less, p)
		} else {
			rest = append(rest, w)
		}
	}
	if signed := len(more) + len(less); signed == 0 {
		list, err = hostPorts(rest)
		return list, nil, nil, err
	} else if len(rest) > 0 {
		return nil, nil, nil, usagef("--host-port %q beside a port with a sign: +PORT and -PORT change the list, PORT replaces it", api.Shorten(rest[0], 32))
	}
	if add, err = signedPorts(more); err == nil {
		remove, err = signedPorts(less)
	}
	return nil, add, remove, err
}

// signedPorts reads ports, and no word.
func signedPorts(words []string) ([]uint16, error) {
	if len(words) == 1 && words[0] == "none" {
		return nil, usagef("--host-port: none has no sign")
	}
	return hostPorts(words)
}

// showHostPorts adds a line if the agent has any.
func showHostPorts(p *page, a api.Agent) {
	if len(a.HostPorts) == 0 {
		return
	}
	var words []string
	for _, n := range a.HostPorts {
		words = append(words, "127.0.0.1:"+strconv.Itoa(int(n)))
	}
	p.line("  host ports  %s", strings.Join(words, ", "))
}
