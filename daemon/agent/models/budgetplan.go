package models

import "maps"

// leastPart is the least part of a budget that is granted, unless less is left, as a fraction of the budget: the last
// parts would be many and small.
const leastPart = 512

// member is an agent in the account of a bound: what it has used, and what its shim may use. A member whose shim is gone has
// no grant.
type member struct{ used, grant int64 }

func (m member) slack() int64 { return max(m.grant-m.used, 0) }

// account is what the agents of a role have of one bound, by the directories of their logs.
type account struct {
	limit   int64
	members map[string]member
}

func (a account) least() int64 { return max(a.limit/leastPart, 1) }

// used is what all have used.
func (a account) used() (sum int64) {
	for _, m := range a.members {
		sum += m.used
	}
	return sum
}

// free is what an agent can have beyond what it has used: what no other agent has used or was granted.
func (a account) free(dir string) int64 {
	left := a.limit - a.members[dir].used
	for d, m := range a.members {
		if d != dir {
			left -= max(m.used, m.grant)
		}
	}
	return left
}

// part returns the grant of an agent for which something is free: a part that decreases as less is left, and with the number
// of agents that want one. It does not take away what the agent has.
func (a account) part(dir string, agents int) int64 {
	free, m := a.free(dir), a.members[dir]
	part := min(max(free/int64(2*max(agents, 1)), a.least()), free)
	return m.used + max(part, min(m.slack(), free))
}

// recall returns the lower grants of the other agents that make something free: half of what each has not used, or all of
// it if that is little. all: all of it.
func (a account) recall(dir string, all bool) map[string]int64 {
	out := map[string]int64{}
	for d, m := range maps.All(a.members) {
		if d == dir || m.slack() == 0 {
			continue
		}
		half := m.slack() / 2
		if all || half < a.least() {
			half = 0
		}
		out[d] = m.used + half
	}
	return out
}
