package store

import (
	"crypto/sha256"
	"encoding/json"

	"polis/daemon/api"
)

// Rights returns a hash of what agents may do: two states with the same hash grant the same.
func Rights(agents []Agent) (sum [sha256.Size]byte, err error) {
	type rights struct {
		Name, Role string
		Policy     api.Policy
		Lost       bool
		Egress     []string
		HostPorts  []uint16
	}
	var all []rights
	for _, a := range agents {
		all = append(all, rights{a.Name, a.Role, a.Policy, a.RulesLost, a.Egress, a.HostPorts})
	}
	b, err := json.Marshal(all)
	return sha256.Sum256(b), err
}
