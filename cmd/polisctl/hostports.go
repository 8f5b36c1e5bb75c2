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
