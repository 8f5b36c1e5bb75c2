package api

import "time"

// Limits are what an agent may use beside its memory. 0 is as configured.
type Limits struct {
	Pids int `json:"pids,omitempty"` // processes and threads
	// CPUPercent bounds the processor time: 100 is one processor, -1 no bound.
	CPUPercent int `json:"cpu_percent,omitempty"`
	CPUWeight  int `json:"cpu_weight,omitempty"` // 1 to 10000; the default is 100
	IOWeight   int `json:"io_weight,omitempty"`  // 1 to 1000; the default is 100
	// DiskMB bounds worktree, home and scratch directory; -1 no bound.
	DiskMB int `json:"disk_mb,omitempty"`
	// DiskFiles bounds the files and directories there; -1 no bound.
	DiskFiles int `json:"disk_files,omitempty"`
	// Connections bounds those to the outside that there are at a time; -1 no bound.
	Connections int `json:"connections,omitempty"`
}

// SetRequest changes an agent, living or not. What is not in it stays as it is.
type SetRequest struct {
	MemoryMB int `json:"memory_limit_mb,omitempty"`
	// Limits that are 0 stay as they are; Reset names those that go back to
	// what is configured, as their fields are called. "deny", "hide", "ask" and "exclusive"
	// in Reset remove the rules that were added to those of the role, before Policy is added.
	Limits
	Reset []string `json:"reset,omitempty"`
	// Role replaces the role and with it all rules; "" is none.
	Role *string `json:"role,omitempty"`
	// Policy has rules to add to those of the agent, or of Role.
	Policy *Policy `json:"policy,omitempty"`
	// AutoMerge reports whether tasks that end well are merged.
	AutoMerge *bool `json:"auto_merge,omitempty"`
	// RemoveAfter reports whether the agent is removed when its branch is merged.
	RemoveAfter *bool `json:"remove_after,omitempty"`
	// Leftovers is as in AddRequest; "default" is as the role says.
	Leftovers string `json:"leftovers,omitempty"`
	// Egress replaces where its connections may go, as in AddRequest, or changes it with
	// "+NAME" and "-NAME"; "egress" in Reset has it follow the role and the configuration again.
	Egress []string `json:"egress,omitempty"`
	// HostPorts replaces its host ports, as in AddRequest; "host_ports" in Reset
	// has them follow the role and the configuration again.
	HostPorts []uint16 `json:"host_ports,omitzero"`
	// AddHostPorts and RemoveHostPorts change its host ports instead.
	AddHostPorts    []uint16 `json:"add_host_ports,omitempty"`
	RemoveHostPorts []uint16 `json:"remove_host_ports,omitempty"`
	// Env are variables to add to those the agent has; they count for what is started
	// from then on. UnsetEnv names those to remove.
	Env      map[string]string `json:"env,omitempty"`
	UnsetEnv []string          `json:"unset_env,omitempty"`
	// Force sets a memory limit that what is in use does not fit in: what the
	// agent runs is killed.
	Force bool `json:"force,omitempty"`
}

// SetResponse is the agent as it is now.
type SetResponse struct {
	Agent Agent `json:"agent"`
	// Later is what counts only after the agent's next stop and start.
	Later []string `json:"later,omitempty"`
}

// LimitHit is a limit that an agent has run into.
type LimitHit struct {
	Limit string    `json:"limit"` // "memory", "pids", "disk", "files" or "connections"
	Count uint64    `json:"count"` // so often, since its sandbox was made
	Last  time.Time `json:"last"`
}

// ResetEgress stands in SetRequest.Reset for the egress.
const ResetEgress = "egress"

// ResetHostPorts stands in SetRequest.Reset for the host ports.
const ResetHostPorts = "host_ports"

// ResetRules are the lists of rules that Reset knows. Without rules to read and write an agent may do
// everything: only a role replaces those.
func ResetRules() []string { return []string{"deny", "hide", "ask", "exclusive"} }

// LimitNames are the fields of Limits, as SetRequest.Reset knows them.
func LimitNames() []string {
	return []string{"pids", "cpu_percent", "cpu_weight", "io_weight", "disk_mb", "disk_files", "connections"}
}

// Reset sets the named limits to 0.
func (l *Limits) Reset(names []string) {
	for _, n := range names {
		switch n {
		case "pids":
			l.Pids = 0
		case "cpu_percent":
			l.CPUPercent = 0
		case "cpu_weight":
			l.CPUWeight = 0
		case "io_weight":
			l.IOWeight = 0
		case "disk_mb":
			l.DiskMB = 0
		case "disk_files":
			l.DiskFiles = 0
		case "connections":
			l.Connections = 0
		}
	}
}

// Over returns l with the zeros taken from below.
func (l Limits) Over(below Limits) Limits {
	for _, f := range []struct {
		of   *int
		from int
	}{{&l.Pids, below.Pids}, {&l.CPUPercent, below.CPUPercent}, {&l.CPUWeight, below.CPUWeight}, {&l.IOWeight, below.IOWeight},
		{&l.DiskMB, below.DiskMB}, {&l.DiskFiles, below.DiskFiles}, {&l.Connections, below.Connections}} {
		if *f.of == 0 {
			*f.of = f.from
		}
	}
	return l
}

// Check refuses limits that cannot be.
func (l Limits) Check() error {
	for _, f := range []struct {
		name      string
		v, lo, hi int
		unlimited bool
	}{{"pids", l.Pids, 16, 1 << 20, false}, {"cpu_percent", l.CPUPercent, 1, 100_000, true}, {"cpu_weight", l.CPUWeight, 1, 10000, false}, {"io_weight", l.IOWeight, 1, 1000, false},
		{"disk_mb", l.DiskMB, 16, 1 << 30, true}, {"disk_files", l.DiskFiles, 100, 1 << 30, true}, {"connections", l.Connections, 16, 1 << 20, true}} {
		if f.v == 0 || f.unlimited && f.v == -1 || f.v >= f.lo && f.v <= f.hi {
			continue
		}
		also := ""
		if f.unlimited {
			also = ", or -1 for no limit"
		}
		return Errorf(CodeBadRequest, "%s = %d: must be from %d to %d%s", f.name, f.v, f.lo, f.hi, also)
	}
	return nil
}
