package agent

import (
	"fmt"
	"maps"
)

// record describes the agent for those who keep receipts: what replay rebuilds it from.
func (a *Agent) record() map[string]any {
	k := a.Copy()
	return map[string]any{"workspace": a.WS.Name, "branch": k.Branch, "base": k.Base, "base_type": k.BaseType, "role": k.Role, "policy": k.Policy}
}

// recordChange is record after a change of settings.
func (a *Agent) recordChange(words []string) map[string]any {
	out := a.record()
	out["changed"] = words
	return out
}

// with adds data of an event to what describes its agent.
func with(record, more map[string]any) map[string]any {
	maps.Copy(record, more)
	return record
}

func refMessage(agent, ref string, gone bool) string {
	if gone {
		return fmt.Sprintf("agent %s removed %s", agent, ref)
	}
	return fmt.Sprintf("agent %s made %s", agent, ref)
}
