package api

import "time"

// Status is the state of an agent (seed 000, "State Transitions").
type Status string

// The states of an agent.
const (
	StatusCreating Status = "Creating"
	StatusIdle     Status = "Idle"
	StatusRunning  Status = "Running"
	StatusStopped  Status = "Stopped"
	StatusError    Status = "Error"
)

// MergeStatus is what became of an agent's branch (seed 001, "Data Model").
type MergeStatus string

// The fates of a branch. The empty value is an agent without a branch or one
// that has not been merged yet.
const (
	MergePending   MergeStatus = "pending"
	MergeMerged    MergeStatus = "merged"
	MergeDiscarded MergeStatus = "discarded"
	MergeReverted  MergeStatus = "reverted"
)

// Policy is the set of path rules of an agent; gitignore-style globs over
// repository paths. Deny beats Ask beats Write beats Read.
type Policy struct {
	Read  []string `json:"read,omitempty" toml:"read"`
	Write []string `json:"write,omitempty" toml:"write"`
	Ask   []string `json:"ask,omitempty" toml:"ask"`
	Deny  []string `json:"deny,omitempty" toml:"deny"`
	Hide  []string `json:"hide,omitempty" toml:"hide"`
	// Temp gives a private scratch directory, named by $TMPDIR.
	Temp bool `json:"temp,omitempty" toml:"temp"`
}

// The protocols of port maps.
const (
	ProtoTCP = "tcp"
	ProtoUDP = "udp"
)

// PortMapping is one way in from the host to a port of an agent.
type PortMapping struct {
	Agent    string `json:"agent"`
	Internal int    `json:"internal"`
	External int    `json:"external"`
	// Protocol is "tcp" or "udp".
	Protocol string `json:"protocol"`
	Bind     string `json:"bind"`
	// Auto says that polis made the mapping because something listens there.
	Auto bool `json:"auto,omitempty"`
	// Served says that the host's side is open: the agent is up.
	Served bool `json:"served"`
	// Wanted is the external port that was asked for, or that it had before,
	// if that is in use.
	Wanted int `json:"wanted,omitempty"`
	// URL is its name at the proxy, if there is one (network.proxy).
	URL string `json:"url,omitempty"`
}

// Counters are the numbers of seed 002, "WorkspaceMetrics". Latencies are
// exponential moving averages in nanoseconds.
type Counters struct {
	ReadCount       int64 `json:"read_count"`
	WriteCount      int64 `json:"write_count"`
	ReadDenied      int64 `json:"read_denied"`
	WriteDenied     int64 `json:"write_denied"`
	LockConflicts   int64 `json:"lock_conflicts"`
	AvgReadLatency  int64 `json:"avg_read_latency_ns"`
	AvgWriteLatency int64 `json:"avg_write_latency_ns"`
}

// Agent is an agent as the API shows it.
type Agent struct {
	Name           string        `json:"name"`
	BaseType       string        `json:"base_type"`
	Workspace      string        `json:"workspace"`
	Status         Status        `json:"status"`
	StatusReason   string        `json:"status_reason,omitempty"`
	Branch         string        `json:"branch,omitempty"`
	Role           string        `json:"role,omitempty"`
	Command        []string      `json:"command,omitempty"`
	MemoryLimitMB  int           `json:"memory_limit_mb"`
	PidsLimit      int           `json:"pids_limit"`
	CPUWeight      int           `json:"cpu_weight"`
	CPUPercent     int           `json:"cpu_percent,omitempty"` // 100 is one processor; 0: no limit
	IOWeight       int           `json:"io_weight,omitempty"`
	DiskLimitMB    int           `json:"disk_limit_mb,omitempty"` // 0: no limit
	Policy         Policy        `json:"policy"`
	PortMappings   []PortMapping `json:"port_mappings"`
	WorktreePath   string        `json:"worktree_path,omitempty"`
	ProjectPath    string        `json:"project_path,omitempty"`
	MergeStatus    MergeStatus   `json:"merge_status,omitempty"`
	MergeCommitSHA string        `json:"merge_commit_sha,omitempty"`
	// CgroupPath is the control group of its sandbox, below the mount points of
	// the hierarchies; empty while there is none.
	CgroupPath string    `json:"cgroup_path,omitempty"`
	PID        int       `json:"pid,omitempty"`
	ShimPID    int       `json:"shim_pid,omitempty"`
	CreatedAt  time.Time `json:"created_at"`
	Address    string    `json:"address,omitempty"`
	// Egress is where its connections may go: ["open"], ["none"], or names and
	// IPv4 networks.
	Egress      []string  `json:"egress,omitempty"`
	Counters    *Counters `json:"counters,omitempty"`
	MemoryBytes int64     `json:"memory_bytes,omitempty"`
	// CPUMicros is the processor time its sandbox has used, in microseconds.
	CPUMicros int64 `json:"cpu_usec,omitempty"`
	// Isolation is "full", or "degraded": it goes without what Lost names.
	Isolation string   `json:"isolation,omitempty"`
	Lost      []string `json:"lost,omitempty"`
	// LimitHits are the limits it has run into since it was started.
	LimitHits []LimitHit `json:"limit_hits,omitempty"`
}

// Lock is a lease as the API shows it (seed 000, "state.json Schema").
type Lock struct {
	Workspace  string     `json:"workspace"`
	Path       string     `json:"path"`
	Holder     string     `json:"holder"`
	LockType   string     `json:"lock_type"`
	AcquiredAt time.Time  `json:"acquired_at"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"`
	Token      uint64     `json:"token"`
	Reason     string     `json:"reason,omitempty"`
	Tree       bool       `json:"tree,omitempty"`
	Waiters    []string   `json:"waiters,omitempty"`
	// Waiting says since when the waiters wait, and for what.
	Waiting []Waiter `json:"waiting,omitempty"`
	// Hold is how long the lock lasts: "explicit" (until given back), "merge",
	// or "use" (as long as the agent's rules say after its last write).
	Hold string `json:"hold,omitempty"`
	Op   string `json:"op,omitempty"`
}

// Waiter is an agent (or person) that wants a path somebody else has locked.
type Waiter struct {
	Holder string    `json:"holder"`
	Since  time.Time `json:"since"`
	Op     string    `json:"op,omitempty"`
}

// InsideLocks is what an agent is told of its own locks.
type InsideLocks struct {
	Locks []Lock `json:"locks"`
	// Total is more than Locks has if there are too many to list.
	Total int `json:"total"`
}

// WaitRequest waits, in a sandbox, until the agent may write to a path.
type WaitRequest struct {
	Path       string `json:"path"`
	WaitMillis int    `json:"wait_ms"`
	// KeepMillis is how long the path is kept for the agent when its turn has come.
	KeepMillis int `json:"keep_ms"`
}

// Event is one thing that happened. IDs grow, by one in a daemon's life, and
// are never given out again, also not after a restart; Last-Event-ID resumes
// from them. polisd keeps the last 4096 or so in memory: if there were others
// after the one that is resumed from, an event of type EventEventsMissed with
// the same ID comes first.
type Event struct {
	ID      uint64         `json:"id"`
	Time    time.Time      `json:"time"`
	Type    string         `json:"type"`
	Agent   string         `json:"agent,omitempty"`
	Code    Code           `json:"code,omitempty"`
	Message string         `json:"message"`
	Data    map[string]any `json:"data,omitempty"`
}

// Types of events. Consumers must ignore the ones they do not know.
const (
	EventAgentCreated     = "agent:created"
	EventAgentStatus      = "agent:status"
	EventAgentSettings    = "agent:settings"
	EventAgentRemoved     = "agent:removed"
	EventAgentMerged      = "agent:merged"
	EventAgentMergeFailed = "agent:merge-failed"
	EventAgentDiscarded   = "agent:discarded"
	EventAgentReverted    = "agent:reverted"
	EventAgentRestored    = "agent:restored"
	EventQueue            = "queue:changed"
	EventTask             = "agent:task"
	EventAgentPull        = "agent:pull-request"
	EventDenied           = "access:denied"
	EventLockConflict     = "lock:conflict"
	EventLock             = "lock:changed"
	EventConflictFound    = "conflict:found"
	EventConflictGone     = "conflict:gone"
	EventLockWaiting      = "lock:waiting"
	EventLockBroken       = "lock:broken"
	EventLockLost         = "lock:lost"
	EventRemote           = "agent:remote"
	EventMaintained       = "workspace:maintained"
	EventDown             = "workspace:removed"
	EventOOM              = "limit:oom"
	EventPids             = "limit:pids"
	EventDisk             = "limit:disk"
	EventPort             = "port:changed"
	EventReconciled       = "daemon:reconciled"
	EventState            = "daemon:state"
	EventMissed           = "agent:events-missed"
	EventEventsMissed     = "events:missed"
)

// Workspace is a repository under polis.
type Workspace struct {
	Name         string `json:"name"`
	Path         string `json:"path"`
	Project      string `json:"project"`
	Git          bool   `json:"git"`
	TargetBranch string `json:"target_branch,omitempty"`
	UID          int    `json:"uid"`
	GID          int    `json:"gid"`
	Agents       int    `json:"agents"`
}

// UpRequest makes or finds a workspace. Repo is a directory or a URL.
type UpRequest struct {
	Repo   string `json:"repo"`
	Path   string `json:"path,omitempty"`
	Target string `json:"target,omitempty"`
}

// UpResponse answers UpRequest.
type UpResponse struct {
	Workspace Workspace `json:"workspace"`
	Created   bool      `json:"created"`
	Warnings  []string  `json:"warnings,omitempty"`
}

// AddRequest adds an agent.
type AddRequest struct {
	Name      string `json:"name"`
	BaseType  string `json:"base_type"`
	Workspace string `json:"workspace,omitempty"`
	Branch    string `json:"branch,omitempty"`
	MemoryMB  int    `json:"memory_limit_mb,omitempty"`
	Limits
	Role   string  `json:"role,omitempty"`
	Policy *Policy `json:"policy,omitempty"`
	Ports  []int   `json:"ports,omitempty"`
	// UDPPorts are mapped as Ports are, for UDP.
	UDPPorts []int    `json:"udp_ports,omitempty"`
	Command  []string `json:"command,omitempty"`
	// AutoMerge says whether tasks that end well are merged; nil: as configured.
	AutoMerge *bool `json:"auto_merge,omitempty"`
	// Force adds it also if the machine has no room for it.
	Force bool `json:"force,omitempty"`
	// Egress is where its connections may go: ["open"], ["none"], or names and
	// IPv4 networks; none: as configured.
	Egress []string `json:"egress,omitempty"`
}

// RemoveResponse says what removal put aside.
type RemoveResponse struct {
	Name  string `json:"name"`
	Trash string `json:"trash,omitempty"`
	// Aside is a directory: the worktree as it was, if a ref could not hold all of it.
	Aside string `json:"aside,omitempty"`
}

// RunRequest gives an agent a task.
type RunRequest struct {
	Prompt string `json:"prompt"`
}

// SendRequest types a text into what an agent runs; Enter follows, unless NoEnter.
type SendRequest struct {
	Text    string `json:"text"`
	NoEnter bool   `json:"no_enter,omitempty"`
}

// BroadcastRequest sends a text to every Running agent of a workspace, or of
// all of them.
type BroadcastRequest struct {
	Workspace string `json:"workspace,omitempty"`
	Text      string `json:"text"`
}

// BroadcastResult is how sending to one agent went.
type BroadcastResult struct {
	Agent string `json:"agent"`
	Error *Error `json:"error,omitempty"`
}

// BroadcastResponse has one result for each agent that was Running.
type BroadcastResponse struct {
	Results []BroadcastResult `json:"results"`
}

// How a task came to an agent that was Running already.
const (
	TaskSent      = "send"
	TaskBroadcast = "broadcast"
)

// Task is one entry of an agent's task log (property 25).
type Task struct {
	Agent   string    `json:"agent"`
	Prompt  string    `json:"prompt"`
	Command []string  `json:"command"`
	Time    time.Time `json:"time"`
	// Via is how it came to a Running agent; empty for a task of its own.
	Via string `json:"via,omitempty"`
}

// LockRequest takes or gives back an explicit lock.
type LockRequest struct {
	Workspace string `json:"workspace,omitempty"`
	Path      string `json:"path"`
	Agent     string `json:"agent,omitempty"`
	Read      bool   `json:"read,omitempty"`
	Tree      bool   `json:"tree,omitempty"`
	Reason    string `json:"reason,omitempty"`
	// ForSeconds limits the lock; 0 means until it is given back.
	ForSeconds int  `json:"for_seconds,omitempty"`
	WaitMillis int  `json:"wait_ms,omitempty"`
	Break      bool `json:"break,omitempty"`
}

// PortRequest maps a port, or several in a row: then all of them or none.
type PortRequest struct {
	Agent    string `json:"agent"`
	Internal int    `json:"internal"`
	// Last is the last internal port of a range; 0: Internal alone.
	Last int `json:"last,omitempty"`
	// External is the first external port; 0: any.
	External int `json:"external,omitempty"`
	// Protocol is "tcp" (or "") or "udp".
	Protocol string `json:"protocol,omitempty"`
	// Bind is an IP address of the host; "" is that of the configuration.
	Bind string `json:"bind,omitempty"`
}

// PortsAdded is the first map that was made, and all of them.
type PortsAdded struct {
	PortMapping
	Ports []PortMapping `json:"ports"`
}

// MergeRequest merges an agent's branch into the target branch.
type MergeRequest struct {
	Message string `json:"message,omitempty"`
	DryRun  bool   `json:"dry_run,omitempty"`
	// NoCheck merges without the check command.
	NoCheck bool `json:"no_check,omitempty"`
}

// MergeResponse is a merge that happened.
type MergeResponse struct {
	Agent          string      `json:"agent"`
	Branch         string      `json:"branch"`
	Target         string      `json:"target"`
	MergeCommitSHA string      `json:"merge_commit_sha,omitempty"`
	MergeStatus    MergeStatus `json:"merge_status"`
	Project        string      `json:"project,omitempty"`
	DryRun         bool        `json:"dry_run,omitempty"`
	Paths          []string    `json:"paths,omitempty"`
	Note           string      `json:"note,omitempty"`
	Log            string      `json:"log,omitempty"` // what the check printed
}

// DaemonStatus is the answer to GET /v1/status.
type DaemonStatus struct {
	Version   string    `json:"version"`
	PID       int       `json:"pid"`
	StartedAt time.Time `json:"started_at"`
	// IsolationMode is "full", or "degraded" if Lost is not empty.
	IsolationMode string        `json:"isolation_mode"`
	Lost          []Loss        `json:"lost,omitempty"`
	Launcher      string        `json:"launcher"`
	CgroupMode    string        `json:"cgroup_mode"`
	Workspaces    []Workspace   `json:"workspaces"`
	Agents        []Agent       `json:"agents"`
	Locks         int           `json:"locks"`
	Conflicts     ConflictCount `json:"conflicts"`
	Warnings      []string      `json:"warnings,omitempty"`
	// Reconcile is what this polisd found when it started; nil until it has.
	Reconcile *ReconcileReport `json:"reconcile,omitempty"`
}

// Attach tells a client where the agent's own server is: terminals and
// output streams go there directly, so that they outlive the daemon.
type Attach struct {
	Agent  string `json:"agent"`
	Socket string `json:"socket"`
}
