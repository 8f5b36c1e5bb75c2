package wire

import "polis/daemon/api"

// Settings are what can be changed while an agent runs: POST /v1/settings, since version 3. A
// request has all of them, not a difference, so that it can be repeated; unchanged ones have no
// effect.
type Settings struct {
	Role   string     `json:"role,omitempty"`
	Policy api.Policy `json:"policy"`
	// Record: the lists read and write of Policy do not apply, if the shim records what the agent uses.
	// Since PolicyRecordVersion.
	Record      bool  `json:"record,omitempty"`
	MemoryBytes int64 `json:"memory_bytes"`
	Pids        int64 `json:"pids"`
	CPUWeight   int64 `json:"cpu_weight"`
	CPUPercent  int64 `json:"cpu_percent,omitempty"`
	IOWeight    int64 `json:"io_weight,omitempty"`
	DiskBytes   int64 `json:"disk_bytes,omitempty"`
	DiskFiles   int64 `json:"disk_files,omitempty"`
	Connections int64 `json:"connections,omitempty"`
	// Egress and Private are where connections may go (package egress). Since
	// version 6.
	Egress  []string `json:"egress,omitempty"`
	Private []string `json:"private,omitempty"`
	// HostPorts are TCP ports of the host's 127.0.0.1 that the agent reaches at its
	// own. Since version 11.
	HostPorts []uint16 `json:"host_ports,omitempty"`
	// Vars are variables of what is started from then on. Since EnvVersion.
	Vars []string `json:"vars,omitempty"`
	// Tools are the role's rules for tools, Remembered the answers that hold for the agent.
	// Since ApprovalsVersion.
	Tools      api.ToolRules      `json:"tools,omitzero"`
	Remembered []api.ApprovalRule `json:"remembered,omitempty"`
	// MemoryAsk is when the agent asks for more memory; nil: never. Since MemoryAskVersion.
	MemoryAsk *MemoryAsk `json:"memory_ask,omitempty"`
	// Breakers are the limits above which the agent is frozen. Since BreakersVersion.
	Breakers api.Breakers `json:"breakers,omitzero"`
}

// MemoryAsk: an agent that needs Percent of its memory limit asks for StepBytes more, up to a limit
// of MaxBytes.
type MemoryAsk struct {
	Percent   int   `json:"percent"`
	StepBytes int64 `json:"step_bytes"`
	MaxBytes  int64 `json:"max_bytes"`
}

// SettingsRequest is the body of POST /v1/settings.
type SettingsRequest struct {
	Settings
	// Force sets a memory limit below the use, too: the agent's processes are killed then.
	Force bool `json:"force,omitempty"`
}

// EgressVersion is the first version whose shims open their agent's gate.
const EgressVersion = 6

// SettingsVersion is the first version whose shims take Settings.
const SettingsVersion = 3

// Settings returns the part of the spec that can be changed.
func (s *Spec) Settings() Settings {
	return Settings{Role: s.Role, Policy: s.Policy, Record: s.Record, MemoryBytes: s.MemoryBytes, Pids: s.Pids, CPUWeight: s.CPUWeight, CPUPercent: s.CPUPercent, IOWeight: s.IOWeight,
		Egress: s.Egress, Private: s.Private, DiskBytes: s.DiskBytes, DiskFiles: s.DiskFiles, Connections: s.Connections, HostPorts: s.HostPorts, Vars: s.Vars, Tools: s.Tools, Remembered: s.Remembered, MemoryAsk: s.MemoryAsk, Breakers: s.Breakers}
}

// Set replaces it.
func (s *Spec) Set(v Settings) {
	s.Role, s.Policy, s.MemoryBytes, s.Pids, s.CPUWeight, s.CPUPercent, s.IOWeight = v.Role, v.Policy, v.MemoryBytes, v.Pids, v.CPUWeight, v.CPUPercent, v.IOWeight
	s.Egress, s.Private, s.DiskBytes, s.DiskFiles, s.Connections = v.Egress, v.Private, v.DiskBytes, v.DiskFiles, v.Connections
	s.HostPorts, s.Vars, s.Tools, s.Remembered, s.Breakers = v.HostPorts, v.Vars, v.Tools, v.Remembered, v.Breakers
	s.MemoryAsk, s.Record = v.MemoryAsk, v.Record
}
