package wire

import "polis/daemon/api"

// Settings are what can be changed while an agent runs: POST /v1/settings, since version 3. A
// request has all of them, not a difference, so that it can be repeated; unchanged ones have no
// effect. They are part of the Spec, too.
type Settings struct {
	Role   string     `json:"role,omitempty"`
	Policy api.Policy `json:"policy"`
	// Record: the lists read and write of Policy do not apply, if the shim records what the agent uses.
	// Since PolicyRecordVersion.
	Record      bool  `json:"record,omitempty"`
	MemoryBytes int64 `json:"memory_bytes"`
	Pids        int64 `json:"pids"`
	CPUWeight   int64 `json:"cpu_weight"`
	CPUPercent  int64 `json:"cpu_percent,omitempty"` // 100 is one processor; 0: no limit
	IOWeight    int64 `json:"io_weight,omitempty"`
	// DiskBytes bounds what the agent has on the disk, DiskFiles its files and
	// directories; 0: no bound.
	DiskBytes int64 `json:"disk_bytes,omitempty"`
	DiskFiles int64 `json:"disk_files,omitempty"`
	// Connections bounds those to the outside that there are at a time; 0: no bound.
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
