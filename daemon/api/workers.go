package api

import "time"

// DelegateRequest gives a task to a worker: an agent that is made for it. What is left out is as for
// an agent that is added or, for a worker of an agent, as that agent has it.
type DelegateRequest struct {
	// Type is "delegate", or left out. RequestID is the caller's own, and comes back.
	Type      string `json:"type,omitempty"`
	RequestID string `json:"requestId,omitempty"`
	// AgentSpec: role and command as in AddRequest for a person's worker. The worker of an agent has its agent's role;
	// policy, limits, egress and host ports narrow what its agent has; workspace and force are not for agents.
	AgentSpec
	// Branch is the worker's; one of an agent's worker must be new.
	Branch string `json:"branch"`
	Task   string `json:"task"`
	// BaseType is as in AddRequest. The worker of an agent has its agent's.
	BaseType string `json:"base_type,omitempty"`
	// Model and Commit are as in RunRequest.
	Model  string `json:"model,omitempty"`
	Commit bool   `json:"commit,omitempty"`
	// Merge puts the branch of an agent's worker in the merge queue when the task has ended well,
	// as its agent's own would be; without it the agent merges it into its own branch.
	Merge bool `json:"merge,omitempty"`
}

// WorkerState is where a worker is in its life.
type WorkerState string

// The states of a worker.
const (
	WorkerWorking WorkerState = "working" // on its task
	WorkerLanding WorkerState = "landing" // the task has ended, its branch waits to be merged
	WorkerEnded   WorkerState = "ended"   // the task's result is final
)

// Worker is an agent that was made for one task, and the task's result. Its ID is the agent's name.
type Worker struct {
	RequestID string      `json:"requestId,omitempty"`
	ID        string      `json:"id"`
	State     WorkerState `json:"state"`
	// OK: the task ended well.
	OK        bool   `json:"ok"`
	Workspace string `json:"workspace"`
	Branch    string `json:"branch,omitempty"`
	// Parent is the agent that it works for; empty for a person's.
	Parent    string    `json:"parent,omitempty"`
	BaseType  string    `json:"base_type"`
	Role      string    `json:"role,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	// Removed: the agent is no more. Its result is kept.
	Removed bool `json:"removed,omitempty"`
	// Waiting is what it waits for; Update is what its program said last.
	Waiting *Waiting      `json:"waiting,omitempty"`
	Update  *StatusUpdate `json:"update,omitempty"`
	// Task is its last task, without steps in lists.
	Task *Task `json:"task,omitempty"`
	// Summary is what the agent said of its work.
	Summary string `json:"summary,omitempty"`
	// DiffStat is how much it committed, if one worker was asked for and that is known.
	DiffStat string `json:"diff_stat,omitempty"`
	// MergeStatus and MergeCommitSHA are as in Agent.
	MergeStatus    MergeStatus `json:"merge_status,omitempty"`
	MergeCommitSHA string      `json:"merge_commit_sha,omitempty"`
}

// CleanupRequest removes workers whose task has ended.
type CleanupRequest struct {
	Workspace string `json:"workspace,omitempty"`
	// Force also removes those with uncommitted files; the files are saved in the trash.
	Force bool `json:"force,omitempty"`
}

// CleanupResponse says which workers were removed, and which stay and why.
type CleanupResponse struct {
	Removed []RemoveResponse `json:"removed"`
	Kept    []WorkerKept     `json:"kept,omitempty"`
}

// WorkerKept is a worker that was not removed.
type WorkerKept struct {
	ID    string `json:"id"`
	Error *Error `json:"error"`
}

// Operations of a WorkersRequest.
const (
	WorkersDelegate = "delegate"
	WorkersList     = "list"
	WorkersGet      = "get"
	WorkersCancel   = "cancel"
	WorkersCleanup  = "cleanup"
)

// WorkersRequest is what an agent wants of its workers, in its sandbox.
type WorkersRequest struct {
	Op string `json:"op"`
	// Delegate is for the operation of that name.
	Delegate *DelegateRequest `json:"delegate,omitempty"`
	// ID is the worker to get or to cancel.
	ID string `json:"id,omitempty"`
	// WaitSeconds is how long get waits for the result, at most 300.
	WaitSeconds int `json:"wait_seconds,omitempty"`
}

// WorkersResponse answers WorkersRequest: the worker or the workers it is about, or what a cleanup
// did.
type WorkersResponse struct {
	Workers []Worker         `json:"workers,omitempty"`
	Cleanup *CleanupResponse `json:"cleanup,omitempty"`
}
