package main

import (
	"fmt"
	"slices"

	"polis/daemon/api"
)

// maxUnmapped is how many ports of one agent are named.
const maxUnmapped = 5

// unmapped names the ports that nothing maps since the command that opened them has ended, of the named agents, or of all.
func unmapped(agents []api.Agent, names []string) (out []string) {
	for _, g := range agents {
		if len(names) > 0 && !slices.Contains(names, g.Name) {
			continue
		}
		n := 0
		for _, l := range g.Leftovers {
			for _, port := range l.Ports {
				if slices.ContainsFunc(g.PortMappings, func(m api.PortMapping) bool { return m.Internal == port.Port && m.Protocol == port.Protocol }) {
					continue
				}
				if n++; n > maxUnmapped {
					continue
				}
				spec := fmt.Sprint(port.Port)
				if port.Protocol != api.ProtoTCP {
					spec += "/" + port.Protocol
				}
				out = append(out, fmt.Sprintf("%s: %s, which its last command left running, listens on port %s, which is not mapped; polisctl ports add %s %s", g.Name, clean(l.Program), spec, g.Name, spec))
			}
		}
		if n > maxUnmapped {
			out = append(out, fmt.Sprintf("%s: and %d more ports; polisctl agents leftovers %s", g.Name, n-maxUnmapped, g.Name))
		}
	}
	return out
}
