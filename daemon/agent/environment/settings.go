package environment

import (
	"maps"
	"slices"

	"polis/daemon/agent"
	"polis/daemon/agent/models"
	"polis/daemon/api/wire"
	"polis/daemon/config"
	"polis/daemon/store"
)

// Settings returns the part of an agent's spec that can change while the agent runs.
func (b *Builder) Settings(a *agent.Agent) wire.Settings {
	k := a.Copy()
	c := b.Config()
	memory, l := a.OwnLimits(c)
	v := wire.Settings{Role: k.Role, Policy: k.Policy, Record: k.Recording, MemoryBytes: int64(memory) << 20, Pids: int64(l.Pids),
		CPUWeight: int64(l.CPUWeight), CPUPercent: int64(l.CPUPercent), IOWeight: int64(l.IOWeight),
		DiskBytes: int64(l.DiskMB) << 20, DiskFiles: int64(l.DiskFiles), Connections: int64(l.Connections)}
	if ask := c.Limits.MemoryAsk; ask.StepMB > 0 && !a.OfAgent() { // the memory of a worker is its parent's
		v.MemoryAsk = &wire.MemoryAsk{Percent: ask.At, StepBytes: int64(ask.StepMB) << 20, MaxBytes: int64(ask.MaxMB) << 20}
	}
	v.Egress, v.Private, v.HostPorts = b.reach(a, k)
	v.Vars = b.variables(a, k)
	v.Breakers = c.BreakersOf(k.Role)
	v.Tools, v.Remembered = c.Roles[k.Role].Tools, a.Remembered()
	return v
}

// reach returns where an agent's connections may go. The entries were checked when they were set,
// but the configuration can have changed since: entries that cannot be read allow nothing.
func (b *Builder) reach(a *agent.Agent, k store.Agent) (entries, private []string, hostPorts []uint16) {
	c := b.Config()
	r, err := c.Reach(k.Role, a.Type, config.Own{Egress: k.Egress, HostPorts: k.HostPorts})
	if err != nil {
		b.Log.Error("egress not read; the agent reaches nothing", "agent", a.Name(), "err", err)
	}
	for _, p := range r.Private {
		private = append(private, p.String())
	}
	return r.Policy.Entries(), private, r.HostPorts
}

// variables returns the environment variables of the base type and the configuration, sorted.
func (b *Builder) variables(a *agent.Agent, k store.Agent) []string {
	c := b.Config()
	vars := a.Type.Variables()
	if model := c.RoleModel(k.Role, k.BaseType); model != "" {
		vars["POLIS_MODEL"] = model
		if a.Type.ModelEnv != "" {
			vars[a.Type.ModelEnv] = model
		}
	}
	maps.Copy(vars, c.Env(k.Name, k.Role, k.Env))
	models.Variables(c, k.Role, a.Type, vars)
	models.ServiceVariables(c, k.Role, vars)
	out := make([]string, 0, len(vars))
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		out = append(out, name+"="+vars[name])
	}
	return out
}
