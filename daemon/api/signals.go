package api

import "time"

// MergeSignalState is how far a request to merge is (seed 004, "Signal Flow Design").
type MergeSignalState string

// The states. All but the first are final.
const (
	MergeSignalReady     MergeSignalState = "merge-ready"  // the work was measured, and its branch is in the merge queue
	MergeSignalMerged    MergeSignalState = "merged"       // it is in the target
	MergeSignalFailed    MergeSignalState = "merge-failed" // it is kept
	MergeSignalWithdrawn MergeSignalState = "withdrawn"    // it was taken out of the queue, or there was nothing to merge
)

// MergeSignal is one request to merge, from the end of a task to its result. Each state is published
// at least once, also after a crash; ID and State tell a repetition from news.
type MergeSignal struct {
	// ID correlates the signals of one request: the task that put the branch in the queue, or the
	// agent and the time.
	ID     string           `json:"id"`
	Agent  string           `json:"agent"`
	Target string           `json:"target"`
	Tasks  []string         `json:"tasks,omitempty"`
	State  MergeSignalState `json:"state"`
	// Head is the commit that was measured or merged, if it is known.
	Head  string     `json:"head,omitempty"`
	Ready time.Time  `json:"ready"`
	Ended *time.Time `json:"ended,omitempty"`
	// MergeCommitSHA is in the target; Verified: it was found there after the merge.
	MergeCommitSHA string `json:"merge_commit_sha,omitempty"`
	Verified       bool   `json:"verified,omitempty"`
	// Code, Message and Paths are why and where it failed.
	Code    Code     `json:"code,omitempty"`
	Message string   `json:"message,omitempty"`
	Paths   []string `json:"paths,omitempty"`
	// Check is the command of the check that the merge result had, cut to 500 bytes; Log is the file with its output,
	// empty if there was no check.
	Check string `json:"check,omitempty"`
	Log   string `json:"log,omitempty"`
	// ResolvedBy is the later request that brought a failed one's work to the target.
	ResolvedBy string `json:"resolved_by,omitempty"`
	// Rework is what is done about a failed one; nil if another attempt needs no task.
	Rework *Rework `json:"rework,omitempty"`
	// ReworkOf is the failed request that this one reworks, Depth how many there were before.
	ReworkOf string `json:"rework_of,omitempty"`
	Depth    int    `json:"depth,omitempty"`
	// Published is the last state that was published.
	Published MergeSignalState `json:"published,omitempty"`
}

// DetailHook is the detail of a CHECK_FAILED that names the git hook of the project which refused, before the check command.
const DetailHook = "hook"

// How a failed merge is reworked: [merge] rework.
const (
	ReworkNone  = "none"
	ReworkOffer = "offer" // by a new agent, when a person wants it
	ReworkNew   = "new"
	ReworkSame  = "same"
)

// ReworkState is how far a rework is.
type ReworkState string

// The states of a rework.
const (
	ReworkOffered  ReworkState = "offered"
	ReworkWanted   ReworkState = "wanted"
	ReworkStarting ReworkState = "starting"
	ReworkStarted  ReworkState = "started"
)

// Rework is a task to resolve what kept a branch from being merged.
type Rework struct {
	State ReworkState `json:"state"`
	// Same: the agent of the branch does it; else a new one, which is ephemeral.
	Same bool `json:"same,omitempty"`
	// Agent and Task do it, once it has started.
	Agent  string `json:"agent,omitempty"`
	Task   string `json:"task,omitempty"`
	Prompt string `json:"prompt"`
	// Output is the end of the prompt, which the task gets as well when it starts: the last lines of a failed check, or
	// that they are withheld from the agent.
	Output string `json:"output,omitempty"`
	// Error is why it was not started.
	Error string `json:"error,omitempty"`
}

// ReworkRequest starts the rework of an agent's last failed merge.
type ReworkRequest struct {
	// Same gives it to the agent itself; else a new agent gets it.
	Same bool `json:"same,omitempty"`
}
