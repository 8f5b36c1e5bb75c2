package timeline

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"polis/daemon/api"
)

// noteFault publishes that checkpoints of an agent cannot be made because of the store or a limit, and that they can
// again, each once.
func (t *Timeline) noteFault(agent string, err error) {
	if errors.Is(err, ErrLarge) {
		return // this one is left out, and nothing is wrong
	}
	if err != nil {
		switch api.CodeOf(err) {
		case api.CodeStateNotSaved, api.CodeQuota, api.CodeTooLarge:
		default:
			return // the agent is busy, or gone: the next one is made
		}
	}
	e := api.Event{Type: api.EventCheckpoints, Agent: agent, Message: "checkpoints of agent " + agent + " are made again", Data: map[string]any{"workspace": t.Workspace}}
	t.mu.Lock()
	was := t.faults[agent]
	if err == nil {
		delete(t.faults, agent)
	} else {
		fault := api.AsError(err)
		if t.faults == nil {
			t.faults = map[string]*api.Error{}
		}
		t.faults[agent] = fault
		e.Code, e.Message = fault.Code, fmt.Sprintf("no checkpoint of agent %s made: %s", agent, fault.Message)
	}
	t.mu.Unlock()
	if (was == nil) != (err == nil) {
		t.publish(e)
	}
}

// Faults returns, for people, why agents have no new checkpoints. What is noted of one that does not exist is removed.
func (t *Timeline) Faults(exists func(agent string) bool) (out []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, agent := range slices.Sorted(maps.Keys(t.faults)) {
		e := t.faults[agent]
		if !exists(agent) {
			delete(t.faults, agent)
			continue
		}
		out = append(out, fmt.Sprintf("%s: agent %s has no new checkpoints: %s; %s", e.Code, agent, e.Message, e.Hint))
	}
	return out
}
