package agent

import "fmt"

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

func refMessage(agent, ref string, gone bool) string {
	if gone {
		return fmt.Sprintf("agent %s removed %s", agent, ref)
	}
	return fmt.Sprintf("agent %s made %s", agent, ref)
}
