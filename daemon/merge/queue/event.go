package queue

import (
	"fmt"

	"polis/daemon/api"
)

// OutcomeEvent is the event for a signal of a workspace.
func OutcomeEvent(workspace string, s api.MergeSignal) api.Event {
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
