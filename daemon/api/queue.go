package api

import "time"

// QueueState is what happens to an entry of a merge queue.
type QueueState string

// The states of an entry.
const (
	QueueWaiting  QueueState = "waiting"
	QueueMerging  QueueState = "merging"
	QueueChecking QueueState = "checking"
)

// QueueEntry is an agent whose branch is to be merged.
type QueueEntry struct {
	Agent string `json:"agent"`
	// Priority: the higher one goes first, then who came first.
	Priority int    `json:"priority"`
	Message  string `json:"message,omitempty"` // of the merge commit
	// By names who asked: "task" for a task that ended well, or "user".
	By string `json:"by,omitempty"`
	// NoCheck merges without the check command.
	NoCheck bool `json:"no_check,omitempty"`
	// AcceptProtected: a person accepts changes of protected paths.
	AcceptProtected bool `json:"accept_protected,omitempty"`
	// RemoveAfter removes the agent when it is merged.
	RemoveAfter bool `json:"remove_after,omitempty"`
	// Head is the commit the branch must be at; empty: wherever it is.
	Head string `json:"head,omitempty"`
	// Signed is the name of the merge commit that a person signed; empty: polis makes it.
	Signed string `json:"signed,omitempty"`
	// Tasks are those that have put it there, and get its result.
	Tasks   []string   `json:"tasks,omitempty"`
	AddedAt time.Time  `json:"added_at"`
	State   QueueState `json:"state"`
	// ID correlates the entry with its signals; Commit is where the branch was when it was added,
	// if that is known.
	ID     string `json:"id,omitempty"`
	Commit string `json:"commit,omitempty"`
	// Seq grows by one with every entry ever made.
	Seq uint64 `json:"seq"`
}

// QueueOutcome is how an entry ended.
type QueueOutcome struct {
	// ID is that of the entry.
	ID          string      `json:"id,omitempty"`
	Agent       string      `json:"agent"`
	At          time.Time   `json:"at"`
	Tasks       []string    `json:"tasks,omitempty"`
	MergeStatus MergeStatus `json:"merge_status,omitempty"`
	// Branch is what was merged: the agent's branch, or the one that its HEAD was on. Elsewhere is committed work
	// that it does not contain.
	Branch    string       `json:"branch,omitempty"`
	Elsewhere []BranchWork `json:"elsewhere,omitempty"`
	// MergeCommitSHA is the merge commit, if it is merged.
	MergeCommitSHA string   `json:"merge_commit_sha,omitempty"`
	Paths          []string `json:"paths,omitempty"`
	// Code and Message are the reason why it is not; Log is the file with the check's output.
	Code    Code   `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	Log     string `json:"log,omitempty"`
	// Project and Note are about the user's checkout.
	Project string `json:"project,omitempty"`
	Note    string `json:"note,omitempty"`
}

// Queue is the merge queue of one workspace: who waits, in the order of
// merging, and the results of the last ones, newest first.
type Queue struct {
	Workspace string         `json:"workspace"`
	Target    string         `json:"target"`
	Check     string         `json:"check,omitempty"` // the check command
	Entries   []QueueEntry   `json:"entries"`
	Recent    []QueueOutcome `json:"recent"`
	// Signals are the requests to merge, oldest first: those that wait, and the last results.
	Signals []MergeSignal `json:"signals"`
}

// QueueRequest puts an agent in the queue, or gives its entry another priority.
type QueueRequest struct {
	Agent    string `json:"agent,omitempty"`
	Priority int    `json:"priority"`
	Message  string `json:"message,omitempty"`
	NoCheck  bool   `json:"no_check,omitempty"`
	// AcceptProtected accepts changes of protected paths.
	AcceptProtected bool `json:"accept_protected,omitempty"`
	// RemoveAfter removes the agent when it is merged.
	RemoveAfter bool `json:"remove_after,omitempty"`
}

// RevertRequest takes an agent's merge back.
type RevertRequest struct {
	DryRun bool `json:"dry_run,omitempty"`
}

// RevertResponse is a merge that was reverted.
type RevertResponse struct {
	Agent           string      `json:"agent"`
	Target          string      `json:"target"`
	MergeCommitSHA  string      `json:"merge_commit_sha"`
	RevertCommitSHA string      `json:"revert_commit_sha,omitempty"`
	MergeStatus     MergeStatus `json:"merge_status"`
	// Later counts the merges made after the reverted one, which stay.
	Later   int      `json:"later"`
	Warning string   `json:"warning,omitempty"`
	Already bool     `json:"already,omitempty"` // it had been reverted before
	DryRun  bool     `json:"dry_run,omitempty"`
	Paths   []string `json:"paths,omitempty"`
	Project string   `json:"project,omitempty"`
	Note    string   `json:"note,omitempty"`
}

// RestoreRequest brings a removed or discarded agent back.
type RestoreRequest struct {
	// Ref is a ref of the trash; the newest of the agent if empty.
	Ref string `json:"ref,omitempty"`
	// As and Branch are other names than the agent and its branch had.
	As        string `json:"as,omitempty"`
	Branch    string `json:"branch,omitempty"`
	Workspace string `json:"workspace,omitempty"`
}

// DiffRequest describes what a diff shows.
type DiffRequest struct {
	Stat, NameOnly bool
	// Committed leaves out what no commit holds.
	Committed bool
}

// RebaseResponse is the result of putting the target into an agent's branch.
type RebaseResponse struct {
	Agent  string `json:"agent"`
	Branch string `json:"branch"`
	Target string `json:"target"`
	// Head is the commit the worktree is on.
	Head string `json:"head,omitempty"`
	// Conflicts are files that wait in the worktree to be resolved.
	Conflicts []string `json:"conflicts,omitempty"`
	Output    string   `json:"output,omitempty"` // what git said
}

// TrashEntry is work in the trash.
type TrashEntry struct {
	Workspace string    `json:"workspace"`
	Agent     string    `json:"agent"`
	Ref       string    `json:"ref,omitempty"`  // a ref of the shared repository
	Path      string    `json:"path,omitempty"` // or a directory
	Branch    string    `json:"branch,omitempty"`
	Time      time.Time `json:"time"`
	// Bytes is what only this entry takes on the disk.
	Bytes int64 `json:"bytes"`
}

// GCRequest deletes old work from the trash.
type GCRequest struct {
	// BeforeSeconds is the age from which on; the configured time to live if 0.
	BeforeSeconds int64 `json:"before_seconds,omitempty"`
	DryRun        bool  `json:"dry_run,omitempty"`
}

// GCResponse describes what was removed, or would be, and what is kept.
type GCResponse struct {
	Removed []TrashEntry `json:"removed"`
	Kept    []TrashEntry `json:"kept"`
	DryRun  bool         `json:"dry_run,omitempty"`
}
