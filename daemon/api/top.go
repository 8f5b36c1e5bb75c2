package api

import "time"

// Top is what agents use at a moment: GET /v1/top. Counters only grow while an
// agent lives; rates are the difference of two samples.
type Top struct {
	Time time.Time `json:"time"`
	Host TopHost   `json:"host"`
	// Agents are those that live, by name.
	Agents []TopAgent `json:"agents"`
	// Total is all of them.
	Total Use `json:"total"`
	// TotalLimits are those of [limits.total]; 0 is none.
	TotalLimits TotalLimits `json:"total_limits"`
	// Polisd is the daemon itself.
	Polisd Process `json:"polisd"`
}

// TotalLimits bound all agents together.
type TotalLimits struct {
	MemoryBytes int64 `json:"memory_bytes"`
	CPUPercent  int   `json:"cpu_percent"`
	Pids        int   `json:"pids"`
}

// TopHost is the machine.
type TopHost struct {
	CPUs           int    `json:"cpus"`
	MemoryBytes    uint64 `json:"memory_bytes"`
	AvailableBytes uint64 `json:"available_bytes"`
}

// Process is a process of polis.
type Process struct {
	PID         int    `json:"pid"`
	MemoryBytes uint64 `json:"memory_bytes"` // resident
	CPUMicros   uint64 `json:"cpu_usec"`
}

// TopAgent is what one agent uses.
type TopAgent struct {
	Name      string `json:"name"`
	Workspace string `json:"workspace"`
	Status    Status `json:"status"`
	Use
	MemoryLimitBytes int64 `json:"memory_limit_bytes"`
	PidsLimit        int   `json:"pids_limit"`
	CPUPercent       int   `json:"cpu_percent,omitempty"` // the limit; 0: none
	// Shim serves its files and ports.
	Shim Process `json:"shim"`
	// Pressure is missing where the kernel does not measure it.
	Pressure  *Pressure  `json:"pressure,omitempty"`
	LimitHits []LimitHit `json:"limit_hits,omitempty"`
	// Waiting is what the agent waits for; nil if it waits for nothing.
	Waiting *Waiting `json:"waiting,omitempty"`
	// Models is as in Agent.
	Models *ModelUse `json:"models,omitempty"`
}

// Use is what processes in sandboxes use.
type Use struct {
	CPUMicros       uint64 `json:"cpu_usec"`
	ThrottledMicros uint64 `json:"throttled_usec"` // waited for its processor limit
	MemoryBytes     uint64 `json:"memory_bytes"`
	ReadBytes       uint64 `json:"read_bytes"`
	WriteBytes      uint64 `json:"write_bytes"`
	Pids            uint64 `json:"pids"`
	OpenFiles       uint64 `json:"open_files"`
}

// Add adds what another uses.
func (u *Use) Add(v Use) {
	u.CPUMicros += v.CPUMicros
	u.ThrottledMicros += v.ThrottledMicros
	u.MemoryBytes += v.MemoryBytes
	u.ReadBytes += v.ReadBytes
	u.WriteBytes += v.WriteBytes
	u.Pids += v.Pids
	u.OpenFiles += v.OpenFiles
}

// Pressure is the share of the last ten seconds, in percent, in which
// something waited for what was short.
type Pressure struct {
	CPU    float64 `json:"cpu"`
	Memory float64 `json:"memory"`
	IO     float64 `json:"io"`
}
