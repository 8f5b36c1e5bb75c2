package api

// ForkRequest makes a new agent that begins with the work of another one.
type ForkRequest struct {
	// Name is that of the new agent, Branch its branch: agent/NAME if empty. It must not exist.
	Name   string `json:"name"`
	Branch string `json:"branch,omitempty"`
	// Ignored copies ignored files, too.
	Ignored bool `json:"ignored,omitempty"`
	// MemoryMB, Limits, Egress and HostPorts are what the new agent gets of what the other one has:
	// at most the same. Left out: the same.
	MemoryMB int `json:"memory_limit_mb,omitempty"`
	Limits
	Egress    []string `json:"egress,omitempty"`
	HostPorts []uint16 `json:"host_ports,omitzero"`
	// Ephemeral and Force are as in AddRequest.
	Ephemeral bool `json:"ephemeral,omitempty"`
	Force     bool `json:"force,omitempty"`
}

// ForkResponse describes a fork that was made.
type ForkResponse struct {
	Agent Agent  `json:"agent"`
	From  string `json:"from"`
	// Commit is where its branch begins.
	Commit string `json:"commit"`
	// LeftOut are directories and files that git cannot store and the new agent does not have:
	// repositories inside the worktree, and files that are too large.
	LeftOut []string `json:"left_out,omitempty"`
	// StillMS is for how long the processes of the other agent were frozen, in milliseconds.
	StillMS int64 `json:"still_ms"`
}
