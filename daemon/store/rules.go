package store

import "polis/daemon/api"

// Rules returns the rules that apply to the agent now.
func (a Agent) Rules() api.Policy {
	if a.Recording {
		return a.Policy.Recorded()
	}
	return a.Policy
}
