package environment

import (
	"fmt"
	"strconv"

	"polis/daemon/store"
)

// portEnv returns the variables with the port maps of an agent in the host's network: PORT is its
// first port, PORT_3000 is the port to use instead of 3000.
func portEnv(maps []store.PortMap) []string {
	var env []string
	for i, p := range maps {
		if i == 0 {
			env = append(env, "PORT="+strconv.Itoa(p.External))
		}
		if p.Internal != p.External {
			env = append(env, fmt.Sprintf("PORT_%d=%d", p.Internal, p.External))
		}
	}
	return env
}
