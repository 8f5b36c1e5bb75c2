package mergeflow

import (
	"fmt"

	"polis/daemon/api"
)

// maxReworkNames is how many names are tried for the agent of a rework.
const maxReworkNames = 100

// Event is the event for a signal of a workspace.
func Event(workspace string, s api.MergeSignal) api.Event {
	typ, code, text := api.EventMergeReady, api.Code(""), fmt.Sprintf("request %s: the branch of agent %s is ready to be merged into %s", s.ID, s.Agent, s.Target)
	switch s.State {
	case api.MergeSignalMerged:
		typ, text = api.EventMergeMerged, fmt.Sprintf("request %s: the branch of agent %s is in %s", s.ID, s.Agent, s.Target)
	case api.MergeSignalFailed:
		typ, code, text = api.EventMergeFailed, s.Code, fmt.Sprintf("request %s: the branch of agent %s is not merged: %s", s.ID, s.Agent, s.Message)
		if s.Rework != nil && s.Rework.State == api.ReworkOffered {
			text += "; polisctl queue rework " + s.Agent + " gives a new agent the task to resolve it"
		}
	case api.MergeSignalWithdrawn:
		typ, code, text = api.EventMergeWithdrawn, s.Code, fmt.Sprintf("request %s of agent %s was withdrawn", s.ID, s.Agent)
		if s.Code == api.CodeNothingToMerge {
			text = fmt.Sprintf("request %s of agent %s: there is nothing to merge", s.ID, s.Agent)
		}
	}
	return api.Event{Type: typ, Agent: s.Agent, Code: code, Message: text, Data: map[string]any{"workspace": workspace, "signal": s}}
}

// ReworkName returns the name of the agent that reworks a request of agent: a name that is not taken.
func ReworkName(agent string, taken func(name string) bool) (string, error) {
	for n := range maxReworkNames {
		name := agent + "-rework"
		if n > 0 {
			name += fmt.Sprint(n + 1)
		}
		if err := api.CheckName(name); err != nil {
			return "", err
		}
		if !taken(name) {
			return name, nil
		}
	}
	return "", api.Errorf(api.CodeQuota, "agent %s has %d reworks", agent, maxReworkNames).WithHint("polisctl agents remove removes the agents that are over")
}
