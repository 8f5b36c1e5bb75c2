package store

import (
	"time"

	"polis/daemon/api"
)

// StateVersion is the version of state.json this build writes.
const StateVersion = 2

// State is the content of state.json.
type State struct {
	Version       int        `json:"version"`
	LastModified  time.Time  `json:"last_modified"`
	IsolationMode string     `json:"isolation_mode"`
	Project       string     `json:"project"`
	Git           bool       `json:"git"`
	TargetBranch  string     `json:"target_branch"`
	UID           int        `json:"uid"`
	GID           int        `json:"gid"`
	Agents        []Agent    `json:"agents"`
	Locks         []api.Lock `json:"locks"`
	// Queue is who waits to be merged, in order.
	Queue []api.QueueEntry `json:"queue,omitempty"`
	// Signals are the requests to merge, oldest first.
	Signals []api.MergeSignal `json:"merge_signals,omitempty"`
	// Races are those of the workspace, oldest first.
	Races []api.Race `json:"races,omitempty"`
	// Removed is what can be restored, oldest first.
	Removed         []Removed       `json:"removed,omitempty"`
	PortAllocations PortAllocations `json:"port_allocations"`
}

// PortAllocations mirrors the agents' port maps for readers of the file.
type PortAllocations struct {
	NextPort int               `json:"next_port"`
	Mappings []api.PortMapping `json:"mappings"`
}

// Agent is what is kept of one agent.
type Agent struct {
	Name          string `json:"name"`
	BaseType      string `json:"base_type"`
	Branch        string `json:"branch"`
	Role          string `json:"role,omitempty"`
	MemoryLimitMB int    `json:"memory_limit_mb"`
	// Limits are those beside memory that are not as configured.
	Limits  api.Limits `json:"limits,omitzero"`
	Command []string   `json:"command,omitempty"`
	// Policy has its rules; Rules those that apply now.
	Policy api.Policy `json:"policy"`
	// Recording: what it uses is recorded, and the lists read and write of Policy do not apply.
	Recording bool `json:"recording,omitempty"`
	// RulesLost: its rules are not known any more, and it may do nothing until it
	// is given some.
	RulesLost    bool       `json:"rules_lost,omitempty"`
	PortMappings []PortMap  `json:"port_mappings"`
	CreatedAt    time.Time  `json:"created_at"`
	CgroupPath   string     `json:"cgroup_path"`
	Status       api.Status `json:"status"`
	StatusReason string     `json:"status_reason,omitempty"`
	// StatusSince is when it came into that state; zero if an earlier polisd recorded it. It is in a file of its own
	// (package agent): an earlier polisd refuses a state with a field that it does not know.
	StatusSince    time.Time       `json:"-"`
	MergeStatus    api.MergeStatus `json:"merge_status,omitempty"`
	MergeCommitSHA string          `json:"merge_commit_sha,omitempty"`
	// Trashed is where its worktree was moved when it was broken and a new one was made; empty if that never happened.
	Trashed string `json:"trashed_worktree,omitempty"`
	// RevertCommitSHA reverted the merge; empty if it was not reverted.
	RevertCommitSHA string   `json:"revert_commit_sha,omitempty"`
	OwnedRefs       []string `json:"owned_refs,omitempty"`
	// ApprovedWrites are paths that a person has approved a write of, the newest last.
	ApprovedWrites []string `json:"approved_writes,omitempty"`
	// KnownPorts are the external ports that its ports had before, the newest
	// last: they get them again if they can.
	KnownPorts []PortMap `json:"known_ports,omitempty"`
	// InTask: its command is a task that polis gave it, and has not ended.
	InTask bool `json:"in_task,omitempty"`
	// Task is the ID of that task.
	Task string `json:"task,omitempty"`
	// AutoMerge reports whether tasks that end well are merged; nil: as configured.
	AutoMerge *bool `json:"auto_merge,omitempty"`
	// RemoveAfter reports whether it is removed when its branch is merged; nil: as configured.
	RemoveAfter *bool `json:"remove_after,omitempty"`
	// Ephemeral is as in api.AddRequest.
	Ephemeral bool `json:"ephemeral,omitempty"`
	// Worker is set for an agent that was made by delegating a task.
	Worker *Worker `json:"worker,omitempty"`
	// Race is the race that it takes part in: it takes no leases, and begins at the commit Base.
	Race string `json:"race,omitempty"`
	Base string `json:"base,omitempty"`
	// Replay is set for an agent that replays a task: it takes no leases, begins at the commit Base, and
	// its requests to models are answered from a recording.
	Replay *Replay `json:"replay,omitempty"`
	// ReadOnly: it sees the commit Base, or what was the target's newest one, and has no branch.
	ReadOnly bool `json:"read_only,omitempty"`
	// Sparse is the sparse checkout that its worktree was made with; nil: all files.
	Sparse *api.Sparse `json:"sparse,omitempty"`
	// Leftovers is its own rule, as in api.AddRequest; empty: that of its role.
	Leftovers string `json:"leftovers,omitempty"`
	// Egress is its own, as in api.AddRequest; nil: that of its role, or as configured.
	Egress []string `json:"egress,omitempty"`
	// HostPorts are its own, as in api.AddRequest; nil: those of its role, or as configured.
	HostPorts []uint16 `json:"host_ports,omitzero"`
	// Env are variables of its own: keys, mostly. The file is root's alone.
	Env map[string]string `json:"env,omitempty"`
	// Generation grows with every shim of the agent; it distinguishes the present shim from earlier ones.
	Generation uint64 `json:"generation"`
	Session    string `json:"session"`
	Secret     string `json:"secret"`
	// Removal is set while the agent is being removed.
	Removal *Removal `json:"removal,omitempty"`
	// Restoring is set while the agent is being restored. Its work stays in the trash until the
	// agent is complete.
	Restoring *Removal `json:"restoring,omitempty"`
}

// Replay is what an agent replays.
type Replay struct {
	Task    string `json:"task"`
	ByOrder bool   `json:"by_order,omitempty"`
}

// Worker says who an agent works for.
type Worker struct {
	// Parent is the agent that made it; empty for one of a person. Session is that of the parent: a
	// later agent of the same name is another one.
	Parent  string `json:"parent,omitempty"`
	Session string `json:"session,omitempty"`
	// Depth is 1 for a worker of an agent that is no agent's worker itself; 0 for one of a person.
	Depth int `json:"depth,omitempty"`
	// Root is the first agent above it that is no agent's worker.
	Root string `json:"root,omitempty"`
}

// Removal is what a daemon that dies in the middle of it leaves to the next.
type Removal struct {
	// Discard: the branch is removed too, even if polis did not create it.
	Discard bool `json:"discard,omitempty"`
	// Trash is the ref of the work in the trash; empty if it is not saved yet, or there
	// was none.
	Trash string `json:"trash,omitempty"`
	// Head is the commit the work was on; Ignored says that ignored files go to
	// the trash, too.
	Head    string `json:"head,omitempty"`
	Ignored bool   `json:"ignored,omitempty"`
	// From is the agent that is being forked: the trash is of no use to anything else.
	From string `json:"from,omitempty"`
}

// Removed is an agent that is no more.
type Removed struct {
	Agent Agent     `json:"agent"`
	At    time.Time `json:"at"`
	// Trash is the ref with its work; empty if all of it was in the target.
	Trash string `json:"trash,omitempty"`
	// Head is the commit its worktree was on.
	Head string `json:"head,omitempty"`
}

// Registry is the list of a daemon's workspaces, by name.
type Registry struct {
	Version    int               `json:"version"`
	Workspaces map[string]string `json:"workspaces"`
}
