package models

import (
	"slices"
	"time"
)

const (
	// turnGap is the time between the turns of two agents, allTurns bounds those of all agents.
	turnGap  = 250 * time.Millisecond
	allTurns = 5 * time.Second
)

// order is the order in which agents may begin after a pause of a service: round-robin. The agent that was first is
// last after the next pause, however many requests it has.
type order struct{ agents []string }

// next begins the turns after another pause, which the service asked an agent for.
func (o *order) next(limited string) {
	if len(o.agents) == 0 {
		o.agents = []string{limited} // others come before it
		return
	}
	o.agents = append(o.agents[1:], o.agents[0])
}

// delays returns when each agent may begin. Agents that are new come first, those that are gone are
// forgotten.
func (o *order) delays(agents []string) map[string]time.Duration {
	agents = slices.Sorted(slices.Values(agents))
	now := slices.DeleteFunc(slices.Clone(agents), func(a string) bool { return slices.Contains(o.agents, a) })
	for _, a := range o.agents {
		if _, ok := slices.BinarySearch(agents, a); ok {
			now = append(now, a)
		}
	}
	o.agents = now
	out := make(map[string]time.Duration, len(now))
	for i, a := range now {
		out[a] = min(turnGap, allTurns/time.Duration(len(now))) * time.Duration(i)
	}
	return out
}
