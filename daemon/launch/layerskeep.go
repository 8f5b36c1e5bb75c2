package launch

import (
	"fmt"
	"maps"

	"polis/daemon/agent"
	"polis/daemon/api"
)

// lookBelow reports agents whose view is above an overlay of their changes and a base tree (the order "view") that
// another program has unmounted. The shim has the overlay open, so that the agent's programs keep their files; polisd
// reads them by the mount, and an overlay of the same directories cannot be mounted beside it.
//
// Agents can be starting or ending: an event comes after several looks in turn.
func (k *viewKeeper) lookBelow(expected map[string]agent.Place, mounted map[string]bool) {
	maps.DeleteFunc(k.below, func(name string, _ int) bool { _, is := expected[name]; return !is })
	for name := range expected {
		sp, ok := k.s.Spec(name)
		if !ok || sp.Upper == "" || sp.Lower != "" || mounted[sp.Tree] {
			delete(k.below, name)
			continue
		}
		if k.below[name]++; k.below[name] == mountTries {
			restart := fmt.Sprintf("polisctl agents stop %[1]s && polisctl agents start %[1]s", name)
			k.publish(api.Event{Agent: name, Code: api.CodeWorktreeFailed, Data: map[string]any{"paths": []string{sp.Tree}, "hint": restart},
				Message: fmt.Sprintf("another program unmounted the files of agent %s below its view, at %s: its programs keep them, but polis cannot read them (agents diff, snapshots, agents remove) until the agent is started again: %s", name, sp.Tree, restart)})
		}
	}
}

// unsure reports whether files are not mounted, and no event has said so yet.
func (k *viewKeeper) unsure() bool {
	for _, n := range k.below {
		if n < mountTries {
			return true
		}
	}
	return false
}
