package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/store"
)

// verbSet changes an agent in any state. It is no transition.
const verbSet = "set"

// Set changes limits, rules and what happens after an agent's tasks, all or nothing. For a
// running agent they take effect at once, also for open files; the answer names those that
// cannot.
func (m *Manager) Set(ctx context.Context, name string, req api.SetRequest) (api.SetResponse, error) {
	return m.setOnly(ctx, nil, name, req)
}

// setOnly is Set for one agent, if it is not nil: not for another one that has got its name.
func (m *Manager) setOnly(ctx context.Context, only *Agent, name string, req api.SetRequest) (api.SetResponse, error) {
	if err := checkSet(req); err != nil {
		return api.SetResponse{}, err
	}
	a, err := m.findAny(ctx, name, verbSet)
	if err != nil {
		return api.SetResponse{}, err
	}
	unlock := sync.OnceFunc(a.op.Unlock)
	defer unlock()
	if only != nil && a != only {
		return api.SetResponse{}, notFound(name)
	}
	m.mu.Lock()
	old := a.Kept
	m.mu.Unlock()
	c := m.config()
	now, err := changed(c, old, req)
	if err != nil {
		return api.SetResponse{}, err
	}
	if err := readOnlySet(&now, req); err != nil {
		return api.SetResponse{}, err
	}
	if err := m.checkBrackets(ctx, a.WS, newRules(old.Policy, now.Policy), now.Role, nil); err != nil {
		return api.SetResponse{}, err
	}
	if err := m.reachable(c, now.Role, a.Type, ownReach(now)); err != nil {
		return api.SetResponse{}, err
	}
	if err := m.shrinkable(c, a, now); err != nil {
		return api.SetResponse{}, err
	}
	words := differences(c, old, now)
	if len(words) > 0 {
		if err := m.enact(ctx, a, old, now, req.Force); err != nil {
			return api.SetResponse{}, err
		}
		m.Log.Info("agent was changed", "agent", name, "what", strings.Join(words, ", "))
		m.Events.Publish(api.Event{Type: api.EventAgentSettings, Agent: name, Message: "agent " + name + ": " + strings.Join(words, ", "), Data: a.recordChange(words)})
	}
	unlock()
	if err := m.narrowWorkers(ctx, a, req.Force); err != nil {
		return api.SetResponse{}, err
	}
	return api.SetResponse{Agent: m.live(ctx, a), Later: m.later(c, a, old, now)}, nil
}

// findAny is find for a verb that is allowed in every state except Creating.
func (m *Manager) findAny(ctx context.Context, name, verb string) (*Agent, error) {
	a, err := m.lookup(name)
	if err != nil {
		return nil, err
	}
	if st := a.status(m); st == api.StatusCreating {
		return nil, permit(name, st, verb)
	}
	return m.find(ctx, name)
}

func checkSet(req api.SetRequest) error {
	if req.MemoryMB != 0 {
		if err := checkMemory(req.MemoryMB); err != nil {
			return err
		}
	}
	for _, n := range req.Reset {
		if known := slices.Concat(api.LimitNames(), []string{api.ResetEgress, api.ResetHostPorts}, api.ResetRules()); !slices.Contains(known, n) {
			return api.Errorf(api.CodeBadRequest, "reset: %q cannot be reset", api.Shorten(n, 32)).WithHint("they are %s", strings.Join(known, ", "))
		}
	}
	if len(req.Egress) > 0 && slices.Contains(req.Reset, api.ResetEgress) {
		return api.Errorf(api.CodeBadRequest, "egress is both set and reset").WithHint("give one of them")
	}
	if req.HostPorts != nil && slices.Contains(req.Reset, api.ResetHostPorts) {
		return api.Errorf(api.CodeBadRequest, "host_ports is both set and reset").WithHint("give one of them")
	}
	rule := req.Leftovers
	if rule == api.LeftoversDefault {
		rule = ""
	}
	return errors.Join(req.Limits.Check(), checkUnset(req), checkHostPortChange(req), api.CheckEnv(req.Env), api.CheckLeftovers(rule))
}

// changed applies the request to an agent's settings.
func changed(c config.Config, k store.Agent, req api.SetRequest) (store.Agent, error) {
	if req.MemoryMB != 0 {
		k.MemoryLimitMB = req.MemoryMB
	}
	k.Limits.Reset(req.Reset)
	k.Limits = req.Limits.Over(k.Limits)
	if req.AutoMerge != nil {
		k.AutoMerge = req.AutoMerge
	}
	if req.RemoveAfter != nil {
		k.RemoveAfter = req.RemoveAfter
	}
	switch req.Leftovers {
	case "":
	case api.LeftoversDefault:
		k.Leftovers = ""
	default:
		k.Leftovers = req.Leftovers
	}
	if k.RulesLost && (req.Role != nil || req.Policy != nil) {
		// It has the given rules from now on, and RulesLost ends.
		k.RulesLost, k.Policy = false, api.Policy{}
	}
	if req.Role != nil {
		p, err := rolePolicy(c, *req.Role)
		if err != nil {
			return k, err
		}
		k.Role, k.Policy = *req.Role, p
	}
	var err error
	if k.Policy, err = resetRules(c, k, req.Reset); err != nil {
		return k, err
	}
	if slices.Contains(req.Reset, api.ResetEgress) {
		k.Egress = nil
	}
	if len(req.Egress) > 0 {
		if k.Egress, err = c.EgressWords(k.Role, ownReach(k), req.Egress); err != nil {
			return k, err
		}
	}
	if slices.Contains(req.Reset, api.ResetHostPorts) {
		k.HostPorts = nil
	}
	if req.HostPorts != nil {
		k.HostPorts = req.HostPorts
	}
	if len(req.AddHostPorts)+len(req.RemoveHostPorts) > 0 {
		if k.HostPorts, err = changedHostPorts(c, k.Role, ownReach(k), req); err != nil {
			return k, err
		}
	}
	k.Recording = k.Recording && c.RecordsPolicy(k.Name, k.Role)
	if k.Env, err = changedEnv(k.Env, req); err != nil {
		return k, err
	}
	k.Policy, err = addRules(k.Policy, req.Policy)
	return k, err
}

// differences describes what differs.
func differences(c config.Config, old, now store.Agent) []string {
	var out []string
	number := func(what string, from, to int) {
		if from != to {
			out = append(out, fmt.Sprintf("%s %d -> %d", what, from, to))
		}
	}
	number("memory_limit_mb", old.MemoryLimitMB, now.MemoryLimitMB)
	was, is := c.Limits.Agent(old.Limits), c.Limits.Agent(now.Limits)
	number("pids", was.Pids, is.Pids)
	number("cpu_percent", was.CPUPercent, is.CPUPercent)
	number("cpu_weight", was.CPUWeight, is.CPUWeight)
	number("io_weight", was.IOWeight, is.IOWeight)
	number("disk_mb", was.DiskMB, is.DiskMB)
	number("disk_files", was.DiskFiles, is.DiskFiles)
	number("connections", was.Connections, is.Connections)
	if was == is && old.Limits != now.Limits {
		out = append(out, "limits are its own")
	}
	if old.Role != now.Role {
		out = append(out, fmt.Sprintf("role %q -> %q", old.Role, now.Role))
	}
	if !reflect.DeepEqual(old.Policy, now.Policy) {
		out = append(out, "rules")
	}
	if old.Recording && !now.Recording {
		out = append(out, "its rules are enforced")
	}
	if !slices.Equal(old.Egress, now.Egress) {
		out = append(out, "egress "+egressText(old.Egress)+" -> "+egressText(now.Egress))
	}
	if !reflect.DeepEqual(old.HostPorts, now.HostPorts) {
		out = append(out, "host ports "+hostPortsText(old.HostPorts)+" -> "+hostPortsText(now.HostPorts))
	}
	out = append(out, describeEnv(old.Env, now.Env)...)
	if !reflect.DeepEqual(old.AutoMerge, now.AutoMerge) {
		out = append(out, fmt.Sprintf("auto_merge %t", now.AutoMerge != nil && *now.AutoMerge))
	}
	if !reflect.DeepEqual(old.RemoveAfter, now.RemoveAfter) {
		out = append(out, fmt.Sprintf("remove_after %t", now.RemoveAfter != nil && *now.RemoveAfter))
	}
	if old.Leftovers != now.Leftovers {
		out = append(out, "leftovers "+cmp.Or(now.Leftovers, "as its role says"))
	}
	return out
}

// later returns the changes that take effect at the next start of a running agent.
func (m *Manager) later(c config.Config, a *Agent, old, now store.Agent) []string {
	m.mu.Lock()
	up := a.up
	m.mu.Unlock()
	if !up {
		return nil
	}
	var out []string
	if old.Policy.Temp != now.Policy.Temp {
		out = append(out, "temp: the scratch directory")
	}
	if a.WS.Git && !sameReading(old.Rules(), now.Rules()) {
		out = append(out, "the rules for reading, for objects in git's history")
	}
	if sp, _ := m.Shims.Spec(a.Name()); sp.Lower != "" && !sameReading(old.Rules(), now.Rules()) && !readsAll(now.Rules()) {
		out = append(out, "the rules for reading, for files that it has not changed: it reads them from the base tree until then")
	}
	if !old.Recording && c.RecordsPolicy(now.Name, now.Role) && !c.RecordsPolicy(old.Name, old.Role) {
		out = append(out, "the recording of what it uses")
	}
	if !reflect.DeepEqual(c.LockRules(old.Role), c.LockRules(now.Role)) {
		out = append(out, "the role's [locks]")
	}
	if !reflect.DeepEqual(c.GitRules(a.Name(), old.Role, a.Type), c.GitRules(a.Name(), now.Role, a.Type)) {
		out = append(out, "the role's [git]")
	}
	return out
}
