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

// MergeStatus is the merge status of an agent's branch (seed 001, "Data Model").
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
	// Exclusive are paths that no other agent of the workspace may have rules to
	// write, or bring home. They give this agent no right of its own.
	Exclusive []string `json:"exclusive,omitempty" toml:"exclusive"`
	// Temp gives a private scratch directory, named by $TMPDIR.
	Temp bool `json:"temp,omitempty" toml:"temp"`
}

// Counters are the numbers of seed 002, "WorkspaceMetrics". Latencies are
// exponential moving averages in nanoseconds.
type Counters struct {
	ReadCount     int64 `json:"read_count"`
	WriteCount    int64 `json:"write_count"`
	ReadDenied    int64 `json:"read_denied"`
	WriteDenied   int64 `json:"write_denied"`
	LockConflicts int64 `json:"lock_conflicts"`
	// QuestionsDenied are the questions that a rule, a person or the lack of an answer denied, but for those about paths,
	// which are reads and writes.
	QuestionsDenied int64 `json:"questions_denied,omitempty"`
	AvgReadLatency  int64 `json:"avg_read_latency_ns"`
	AvgWriteLatency int64 `json:"avg_write_latency_ns"`
}

// Agent is an agent as the API shows it.
type Agent struct {
	Name         string `json:"name"`
	BaseType     string `json:"base_type"`
	Workspace    string `json:"workspace"`
	Status       Status `json:"status"`
	StatusReason string `json:"status_reason,omitempty"`
	Branch       string `json:"branch,omitempty"`
	Role         string `json:"role,omitempty"`
	// ReadOnly: it has no branch, and changes no file of the repository.
	ReadOnly bool `json:"read_only,omitempty"`
	// Sparse is the sparse checkout that its worktree was made with; missing: it has all files.
	Sparse *Sparse `json:"sparse,omitempty"`
	// Ephemeral is as in AddRequest.
	Ephemeral bool `json:"ephemeral,omitempty"`
	// Worker: it was made by delegating a task. Parent is the agent that it works for; empty
	// for a person's.
	Worker  bool     `json:"worker,omitempty"`
	Parent  string   `json:"parent,omitempty"`
	Command []string `json:"command,omitempty"`
	// StartCommand is what start runs, TaskCommand what a task is run by: "{prompt}" in
	// it stands for the task. Both follow from Command and the base type.
	StartCommand   []string `json:"start_command,omitempty"`
	TaskCommand    []string `json:"task_command,omitempty"`
	MemoryLimitMB  int      `json:"memory_limit_mb"`
	PidsLimit      int      `json:"pids_limit"`
	CPUWeight      int      `json:"cpu_weight"`
	CPUPercent     int      `json:"cpu_percent,omitempty"` // 100 is one processor; 0: no limit
	IOWeight       int      `json:"io_weight,omitempty"`
	DiskLimitMB    int      `json:"disk_limit_mb,omitempty"`    // 0: no limit
	DiskLimitFiles int      `json:"disk_limit_files,omitempty"` // 0: no limit
	// ConnectionsLimit bounds connections to the outside; 0: no limit.
	ConnectionsLimit int    `json:"connections_limit,omitempty"`
	Policy           Policy `json:"policy"`
	// Recording: what it uses is recorded as input for a role, and its lists read and write do
	// not restrict it. Its overlay, if it has one, is below its view.
	Recording    bool          `json:"recording,omitempty"`
	PortMappings []PortMapping `json:"port_mappings"`
	WorktreePath string        `json:"worktree_path,omitempty"`
	ProjectPath  string        `json:"project_path,omitempty"`
	// TrashedWorktree is the directory in the trash where its worktree was moved because it was broken, while it is there.
	TrashedWorktree string      `json:"trashed_worktree,omitempty"`
	MergeStatus     MergeStatus `json:"merge_status,omitempty"`
	MergeCommitSHA  string      `json:"merge_commit_sha,omitempty"`
	// Task is its last task; none if it never had one.
	Task *TaskBrief `json:"task,omitempty"`
	// CgroupPath is the control group of its sandbox, below the mount points of
	// the hierarchies; empty while there is none.
	CgroupPath string    `json:"cgroup_path,omitempty"`
	PID        int       `json:"pid,omitempty"`
	ShimPID    int       `json:"shim_pid,omitempty"`
	CreatedAt  time.Time `json:"created_at"`
	Address    string    `json:"address,omitempty"`
	// Egress is where its connections may go: ["open"], ["none"], or names and
	// IPv4 networks.
	Egress []string `json:"egress,omitempty"`
	// HostPorts are TCP ports of the host's 127.0.0.1 that it reaches at its own.
	HostPorts []uint16 `json:"host_ports,omitempty"`
	// Warnings are what will keep it from its work.
	Warnings []string `json:"warnings,omitempty"`
	// Env names the variables that it is given beside those of its base type. Their
	// values are never returned.
	Env []string `json:"env,omitempty"`
	// Counters are kept while the agent is stopped, and continue when it is started.
	Counters *Counters `json:"counters,omitempty"`
	// Models is what it used of model services behind the gateway, with agents of the same name before it;
	// missing if it used none and has none.
	Models *ModelUse `json:"models,omitempty"`
	// Times are of the same operations. They are in GET /v1/metrics.
	Times       *AgentTimes `json:"-"`
	MemoryBytes int64       `json:"memory_bytes,omitempty"`
	// CPUMicros is the processor time its sandbox has used, in microseconds.
	CPUMicros int64 `json:"cpu_usec,omitempty"`
	// Isolation is "full", or "degraded": it goes without what Lost names.
	Isolation string   `json:"isolation,omitempty"`
	Lost      []string `json:"lost,omitempty"`
	// Audit is "full" while it runs and what it opens is recorded. Its overlay is then below its view.
	Audit string `json:"audit,omitempty"`
	// Waiting is what it waits for; none if it waits for nothing.
	Waiting *Waiting `json:"waiting,omitempty"`
	// Leftovers are processes that its last command left running.
	Leftovers []Leftover `json:"leftovers,omitempty"`
	// LeftoversRule is what is done about them, if the agent has a rule of its own.
	LeftoversRule string `json:"leftovers_rule,omitempty"`
	// LimitHits are the limits it has run into since it was started.
	LimitHits []LimitHit `json:"limit_hits,omitempty"`
}

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

// AgentSpec is what every request for an agent can say of it. RaceRequest has some of it, for all agents of a race.
type AgentSpec struct {
	Workspace string   `json:"workspace,omitempty"`
	Role      string   `json:"role,omitempty"`
	Command   []string `json:"command,omitempty"`
	Policy    *Policy  `json:"policy,omitempty"`
	MemoryMB  int      `json:"memory_limit_mb,omitempty"`
	Limits
	// Egress is where its connections may go: ["open"], ["none"], or names and
	// IPv4 networks; or "+NAME" and "-NAME", which change what is configured; none: as configured.
	Egress []string `json:"egress,omitempty"`
	// HostPorts are TCP ports of the host's 127.0.0.1 that it reaches at its own
	// 127.0.0.1, 64 at most; left out: as configured, []: none.
	HostPorts []uint16 `json:"host_ports,omitzero"`
	// Force makes it also if the machine has no room for it.
	Force bool `json:"force,omitempty"`
}

// AddRequest adds an agent.
type AddRequest struct {
	Name     string `json:"name"`
	BaseType string `json:"base_type"`
	AgentSpec
	Branch string `json:"branch,omitempty"`
	// ReadOnly makes an agent that sees the files of a commit and changes none: it has no branch, and
	// takes no lease. At is the commit, or a branch or tag that leads to it; empty: the newest one
	// of the target.
	ReadOnly bool   `json:"read_only,omitempty"`
	At       string `json:"at,omitempty"`
	// Sparse are the directories of the agent's sparse checkout, relative to the top of the repository. With
	// none, they are those of its base type, else those of the project's own checkout. NoSparse makes an agent
	// with all files.
	Sparse   []string `json:"sparse,omitempty"`
	NoSparse bool     `json:"no_sparse,omitempty"`
	// WaitSetup waits until what the setup command of the workspace makes for the commit is there, or
	// the command failed: then the agent starts without.
	WaitSetup bool  `json:"wait_setup,omitempty"`
	Ports     []int `json:"ports,omitempty"`
	// UDPPorts are mapped as Ports are, for UDP.
	UDPPorts []int `json:"udp_ports,omitempty"`
	// AutoMerge reports whether tasks that end well are merged; nil: as configured.
	AutoMerge *bool `json:"auto_merge,omitempty"`
	// RemoveAfter removes the agent when its branch is merged; nil: as configured.
	RemoveAfter *bool `json:"remove_after,omitempty"`
	// Ephemeral marks an agent that exists for its work only: once the work has ended and
	// is kept elsewhere, the patrol may remove the agent.
	Ephemeral bool `json:"ephemeral,omitempty"`
	// Leftovers is what is done about processes that a command of the agent leaves running:
	// "keep", "end" or "ask"; empty: as its role says.
	Leftovers string `json:"leftovers,omitempty"`
	// Env are variables for the agent's programs, such as keys. No answer has them.
	Env map[string]string `json:"env,omitempty"`
	// Race and Base are the ID and the first commit of the race that the agent is for. Only polisd
	// sets them.
	Race string `json:"-"`
	Base string `json:"-"`
	// Cone is the sparse checkout of the agent that this one is made after. Only polisd sets it.
	Cone *Sparse `json:"-"`
	// ReplayOf is the task that the agent replays, ReplayByOrder as in ReplayRequest. Only polisd sets them.
	ReplayOf      string `json:"-"`
	ReplayByOrder bool   `json:"-"`
}

// RemoveResponse describes what a removal saved in the trash.
type RemoveResponse struct {
	Name  string `json:"name"`
	Trash string `json:"trash,omitempty"`
	// Aside is a directory of the trash: the unchanged worktree, if a ref could not hold all of it.
	Aside string `json:"aside,omitempty"`
}

// DaemonStatus is the answer to GET /v1/status.
type DaemonStatus struct {
	// Cases counts what the patrol left open.
	Cases     CaseDigest `json:"cases"`
	Version   string     `json:"version"`
	PID       int        `json:"pid"`
	StartedAt time.Time  `json:"started_at"`
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
	// ConfigFile is the configuration file of this polisd, absolute.
	ConfigFile string `json:"config_file,omitempty"`
}

// Attach is the address of the agent's own server, for clients: terminals and
// output streams go there directly, so that they outlive the daemon.
type Attach struct {
	Agent  string `json:"agent"`
	Socket string `json:"socket"`
}
