package delegate

import (
	"slices"
	"strings"

	"polis/daemon/api"
	"polis/netbridge/egress"
)

// defaultWeight is the kernel's weight of a group without one of its own.
const defaultWeight = 100

// Keep returns what a worker keeps of its rights when its parent has these now. It has no right
// that the parent does not have, and what its own rules withhold stays withheld. Where a rule of the
// worker and one of the parent overlap and neither contains the other, the worker keeps neither.
func Keep(parent, worker Rights) Rights {
	return Rights{Policy: keepRules(parent.Policy, worker.Policy), MemoryMB: min(parent.MemoryMB, worker.MemoryMB),
		Limits: keepLimits(parent.Limits, worker.Limits), Egress: keepReach(parent.Egress, worker.Egress),
		HostPorts: slices.DeleteFunc(slices.Clone(worker.HostPorts), func(p uint16) bool { return !slices.Contains(parent.HostPorts, p) })}
}

func keepLimits(parent, worker api.Limits) api.Limits {
	least := func(p, w int) int {
		if p > 0 && (w <= 0 || w > p) {
			return p
		}
		return w
	}
	weight := func(p, w int) int {
		number := func(v int) int {
			if v <= 0 {
				return defaultWeight
			}
			return v
		}
		if number(w) > number(p) {
			return p
		}
		return w
	}
	return api.Limits{Pids: least(parent.Pids, worker.Pids), CPUPercent: least(parent.CPUPercent, worker.CPUPercent),
		CPUWeight: weight(parent.CPUWeight, worker.CPUWeight), IOWeight: weight(parent.IOWeight, worker.IOWeight),
		DiskMB: least(parent.DiskMB, worker.DiskMB), DiskFiles: least(parent.DiskFiles, worker.DiskFiles), Connections: least(parent.Connections, worker.Connections)}
}

// keepReach returns the worker's egress as far as the parent has it: names and networks contain one
// another or have nothing in common.
func keepReach(parent, worker []string) []string {
	has, err := egress.Parse(parent)
	wants, werr := egress.Parse(worker)
	if err != nil || werr != nil {
		return []string{egress.None}
	}
	if _, ok := has.Contains(wants); ok {
		return wants.Entries()
	}
	var out []string
	pick := func(from, of egress.Policy) {
		for _, e := range from.Entries() {
			one, err := egress.Parse([]string{e})
			if err != nil || e == egress.None || slices.Contains(out, e) {
				continue
			}
			if _, ok := of.Contains(one); ok {
				out = append(out, e)
			}
		}
	}
	pick(wants, has)
	pick(has, wants)
	kept, err := egress.Parse(out)
	_, in := has.Contains(kept)
	_, own := wants.Contains(kept)
	if err != nil || !in || !own {
		return []string{egress.None}
	}
	return kept.Entries()
}

// keepRules returns the worker's path rules as far as the parent's allow the same.
func keepRules(parent, worker api.Policy) api.Policy {
	out := api.Policy{Ask: slices.Clone(parent.Ask), Deny: withhold(parent.Deny, worker.Deny), Hide: withhold(parent.Hide, worker.Hide), Temp: parent.Temp && worker.Temp}
	switch {
	case len(parent.Read)+len(parent.Write) == 0: // it may do everything else
		out.Read, out.Write = slices.Clone(worker.Read), slices.Clone(worker.Write)
		return out
	case len(worker.Read)+len(worker.Write) == 0:
		out.Read, out.Write = slices.Clone(parent.Read), slices.Clone(parent.Write)
		return out
	}
	var err, rerr error
	out.Write, err = meet(parent.Write, worker.Write)
	readsAll := len(parent.Read) == 0
	switch {
	case readsAll:
		out.Read = slices.Clone(worker.Read)
		readsAll = len(worker.Read) == 0
	case len(worker.Read) == 0:
		out.Read = join(parent.Write, parent.Read)
	default: // rules to write are rules to read
		out.Read, rerr = meet(join(parent.Write, parent.Read), join(worker.Write, worker.Read))
	}
	switch {
	case err != nil || rerr != nil:
		return nothing(parent, out)
	case len(out.Read) > 0 || readsAll && len(out.Write) > 0:
	case readsAll: // two empty lists would allow everything
		out.Read = []string{"**"}
	default: // and so would an empty list to read
		return nothing(parent, out)
	}
	return out
}

// withhold returns rules that cover what either list covers. What the worker's list excludes again could
// be the parent's, so it is left out.
func withhold(parent, worker []string) []string {
	back := func(rule string) bool { return strings.HasPrefix(rule, "!") }
	n := len(parent)
	if len(worker) >= n && slices.Equal(worker[:n], parent) && !slices.ContainsFunc(worker[n:], back) {
		return slices.Clone(worker) // it has the parent's rules already
	}
	again := slices.ContainsFunc(parent, back) // which can exclude what the worker's list has, too
	out := slices.Clone(parent)
	for _, r := range worker {
		if !back(r) && (again || !slices.Contains(out, r)) {
			out = append(out, r)
		}
	}
	return out
}

// nothing returns the parent's rules with everything denied.
func nothing(parent, p api.Policy) api.Policy {
	p.Read, p.Write, p.Ask, p.Deny = slices.Clone(parent.Read), slices.Clone(parent.Write), nil, append(slices.Clone(p.Deny), "**")
	return p
}

// union appends the rules of b that a does not have.
func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, r := range b {
		if !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}

// meet returns rules that cover only what both lists cover. What one of them excludes comes last,
// so it counts for all.
func meet(parent, worker []string) ([]string, error) {
	has, err := compile("rules", parent)
	if err != nil {
		return nil, err
	}
	wants, err := compile("rules", worker)
	if err != nil {
		return nil, err
	}
	var out, back []string
	for _, w := range wants {
		if w.Negated() {
			back = append(back, w.String())
			continue
		}
		var parts []string
		for _, p := range has {
			switch {
			case p.Negated():
			case contains(p, w):
				parts = []string{w.String()}
			case contains(w, p) && !slices.Contains(parts, w.String()):
				parts = append(parts, p.String())
			}
		}
		out = union(out, parts)
	}
	if len(out) == 0 {
		return nil, nil
	}
	for _, p := range has {
		if p.Negated() {
			back = append(back, p.String())
		}
	}
	return append(out, union(nil, back)...), nil
}
