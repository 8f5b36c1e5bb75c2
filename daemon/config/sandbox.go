package config

import (
	"polis/daemon/api"
	"polis/daemon/api/setting"
)

// Limits is the [limits] table: what an agent gets unless asked otherwise.
type Limits struct {
	MemoryMB  int `toml:"memory_mb"`
	Pids      int `toml:"pids"`
	CPUWeight int `toml:"cpu_weight"`
	// CPU bounds the processor time, in percent of one processor; 0: no bound.
	CPU int `toml:"cpu"`
	// IOWeight is for disks whose scheduler knows weights; 0: the kernel's default.
	IOWeight  int              `toml:"io_weight"`
	StopGrace setting.Duration `toml:"stop_grace"`
	LogMB     int              `toml:"log_mb"`
	// GitObjectsMB bounds what an agent adds to the shared git objects; 0: no bound.
	GitObjectsMB int `toml:"git_objects_mb"`
	// GitMemoryMB bounds the memory of the git commands that polis runs for one agent; 0: no bound.
	GitMemoryMB int `toml:"git_memory_mb"`
	// DiskMB bounds an agent's worktree, home and scratch directory; 0: no bound.
	DiskMB int `toml:"disk_mb"`
	// DiskFiles bounds the files and directories there; 0: no bound.
	DiskFiles int `toml:"disk_files"`
	// Connections bounds an agent's connections to the outside; 0: no bound.
	Connections int `toml:"connections"`
	// Total bounds all agents together.
	Total Total `toml:"total"`
	// MemoryAsk asks a person for more memory.
	MemoryAsk MemoryAsk `toml:"memory_ask"`
}

// Admission is the [admission] table: how much agents may be promised.
type Admission struct {
	// ReserveMB is memory that is not for agents.
	ReserveMB int `toml:"reserve_mb"`
	// Overcommit is how many times what there is the limits of all agents that
	// live may be: most use little of theirs.
	Overcommit float64 `toml:"overcommit"`
	// DiskFreeMB must be free on the disk with the workspace.
	DiskFreeMB int `toml:"disk_free_mb"`
}

// Total is the [limits.total] table; 0 is no bound.
type Total struct {
	MemoryMB int `toml:"memory_mb"`
	CPU      int `toml:"cpu"` // percent of one processor
	Pids     int `toml:"pids"`
}

// Sandbox is the [sandbox] table.
type Sandbox struct {
	// User is who agents run as when the project belongs to root.
	User        string          `toml:"user"`
	ExtraMounts []setting.Mount `toml:"extra_mounts"`
	// Path are directories that a sandbox's PATH has before the system's, and where
	// programs of base types are looked for first.
	Path []string `toml:"path"`
	// Degraded sets whether agents are refused where the machine cannot isolate them
	// fully: DegradedRefuse or DegradedAllow.
	Degraded string `toml:"degraded"`
	// FuseIOUring has requests to views come by io_uring where the kernel can. It is off
	// unless asked for: the switch is the machine's, and other FUSE servers see it.
	FuseIOUring bool `toml:"fuse_io_uring"`
	// UserNamespaces lets agents make namespaces of their own inside.
	UserNamespaces bool `toml:"user_namespaces"`
}

// What Sandbox.Degraded may be.
const (
	DegradedRefuse = "refuse"
	DegradedAllow  = "allow"
)

// Agent is what an agent may use that has these limits of its own. A limit
// that is none is 0.
func (l *Limits) Agent(own api.Limits) api.Limits {
	out := own.Over(api.Limits{Pids: l.Pids, CPUPercent: l.CPU, CPUWeight: l.CPUWeight, IOWeight: l.IOWeight,
		DiskMB: l.DiskMB, DiskFiles: l.DiskFiles, Connections: l.Connections})
	out.CPUPercent, out.DiskMB, out.DiskFiles = max(out.CPUPercent, 0), max(out.DiskMB, 0), max(out.DiskFiles, 0)
	out.Connections = max(out.Connections, 0)
	return out
}
