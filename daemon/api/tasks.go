package api

import "time"

// RunRequest gives an agent a task.
type RunRequest struct {
	Prompt string `json:"prompt"`
	// Queue keeps the task until the agent has ended the one it works on; without it
	// a Running agent refuses.
	Queue bool `json:"queue,omitempty"`
	// Model is the model that the agent's program is to use; empty: its usual one.
	Model string `json:"model,omitempty"`
	// Continue: the program resumes its last session in this agent.
	Continue bool `json:"continue,omitempty"`
	// Commit commits, before the merge, what the task has left in no commit.
	Commit bool `json:"commit,omitempty"`
	// Env are variables for this task. They are kept nowhere, so that it cannot wait.
	Env map[string]string `json:"env,omitempty"`
	// Unasked: no person gives the task now, so that it waits behind a lost one, as those in the queue do. Only polisd sets it.
	Unasked bool `json:"-"`
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
	// Say says it as SayRequest does, instead of typing it.
	Say bool `json:"say,omitempty"`
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
	TaskSaid      = "say"
)

// TaskState is where a task is in its life.
type TaskState string

// The states of a task, in their order.
const (
	TaskQueued  TaskState = "queued"
	TaskRunning TaskState = "running"
	TaskEnded   TaskState = "ended"
)

// TaskEnd is what ended a task.
type TaskEnd string

// What ends a task. The first of them counts.
const (
	EndExit     TaskEnd = "exit"          // its program ended
	EndDone     TaskEnd = "done"          // polisctl done in the sandbox
	EndComplete TaskEnd = "task_complete" // the agent's own message, by hook or protocol
	EndStop     TaskEnd = "stop"          // its agent was stopped
	EndCancel   TaskEnd = "cancel"        // a person cancelled it
	EndBudget   TaskEnd = "budget"        // its model budget was spent (on_budget = "stop")
	EndSaid     TaskEnd = "said"          // its text was delivered to the task before it
	EndLost     TaskEnd = "lost"          // its sandbox ended, and nobody saw how it did
)

// TaskOutcome is the result of a task in one word, for programs.
type TaskOutcome string

// The outcomes. The first three may still change.
const (
	OutcomeQueued      TaskOutcome = "queued"
	OutcomeRunning     TaskOutcome = "running"
	OutcomeWaiting     TaskOutcome = "waiting" // its branch waits to be merged
	OutcomeMerged      TaskOutcome = "merged"
	OutcomeConflict    TaskOutcome = "conflict"
	OutcomeCheckFailed TaskOutcome = "check-failed"
	OutcomeNotMerged   TaskOutcome = "not-merged" // it has commits that are not merged, and Code may say why
	OutcomeUncommitted TaskOutcome = "uncommitted"
	OutcomeNothing     TaskOutcome = "nothing-to-merge"
	OutcomeRefused     TaskOutcome = "refused" // by the agent's own rules, and there is nothing to merge
	OutcomeDone        TaskOutcome = "done"    // of a project without git
	OutcomeFailed      TaskOutcome = "failed"
	OutcomeKilled      TaskOutcome = "killed"
	OutcomeStopped     TaskOutcome = "stopped"
	OutcomeCancelled   TaskOutcome = "cancelled"
	OutcomeDelivered   TaskOutcome = "delivered" // a text that reached the task before it
	OutcomeLost        TaskOutcome = "lost"
)

// Task is the record of one task of an agent (property 25).
type Task struct {
	// ID is the agent's name, a dot and a number that grows; empty for what polisd
	// logged before tasks had one.
	ID      string   `json:"id,omitempty"`
	Agent   string   `json:"agent"`
	Prompt  string   `json:"prompt"`
	Command []string `json:"command"`
	// Time is when it was given.
	Time time.Time `json:"time"`
	// Via is how it came to a Running agent; empty for a task of its own. What was
	// sent has no end of its own.
	Via   string     `json:"via,omitempty"`
	State TaskState  `json:"state,omitempty"`
	Began *time.Time `json:"began,omitempty"`
	Ended *time.Time `json:"ended,omitempty"`
	// Seconds is how long it ran, or runs.
	Seconds float64 `json:"seconds,omitempty"`
	EndedBy TaskEnd `json:"ended_by,omitempty"`
	// ExitCode is that of its program, if that ended it.
	ExitCode *int `json:"exit_code,omitempty"`
	// Killed is what its program was killed for: "memory".
	Killed string `json:"killed,omitempty"`
	// Failed: the agent itself said that it did not succeed.
	Failed bool `json:"failed,omitempty"`
	// Message is what the agent said of the end, or why it was lost.
	Message string `json:"message,omitempty"`
	// CleanupStatus is what the agent reported with the end about work that is only there.
	CleanupStatus CleanupStatus `json:"cleanup_status,omitempty"`
	// NoCheckpoint is why no checkpoint was made before it, and what to do; empty if one was made, or none is made
	// by itself.
	NoCheckpoint string `json:"no_checkpoint,omitempty"`
	// Base is the commit it began at, Head the one it ended at.
	Base string `json:"base,omitempty"`
	Head string `json:"head,omitempty"`
	// Commits were made by it, Uncommitted files left in no commit.
	Commits     int `json:"commits"`
	Uncommitted int `json:"uncommitted,omitempty"`
	// Elsewhere is committed work that is not in what is merged, each with the command that merges it.
	Elsewhere []BranchWork `json:"elsewhere,omitempty"`
	// Outcome and Result are the result, for programs and for people.
	Outcome TaskOutcome `json:"outcome,omitempty"`
	Result  string      `json:"result,omitempty"`
	// Final: nothing more will become of it by itself. What it left is then counted.
	Final bool `json:"final,omitempty"`
	// Code is the reason why its branch is not merged, Paths the conflicting files; Log is what the check printed.
	Code           Code     `json:"code,omitempty"`
	MergeCommitSHA string   `json:"merge_commit_sha,omitempty"`
	Paths          []string `json:"paths,omitempty"`
	Log            string   `json:"log,omitempty"`
	// CheckOutput is the last lines of Log, if the check failed, and Check is its number for polisctl queue log now. Lists
	// of tasks have neither.
	CheckOutput string `json:"check_output,omitempty"`
	Check       int    `json:"check,omitempty"`
	// Use is what it ran into and used, as far as it is known.
	Use *TaskUse `json:"use,omitempty"`
	// Models is what it used of model services behind the gateway; missing if it used none, and of old
	// tasks of an agent that has very many.
	Models *ModelUse `json:"models,omitempty"`
	// Refused are the last refusals it met.
	Refused []WhyEntry `json:"refused,omitempty"`
	// Network is who dropped the agent's packets to the network outside during the task, which did not
	// succeed, and the command that lets them pass.
	Network string `json:"network,omitempty"`
	// Model and Continue are as in RunRequest.
	Model    string `json:"model,omitempty"`
	Continue bool   `json:"continue,omitempty"`
	// Commit: what it left in no commit was to be committed.
	Commit bool `json:"commit,omitempty"`
	// RetryOf is the task it does again.
	RetryOf string `json:"retry_of,omitempty"`
	// Interrupted is set while it is lost and nobody has retried or dismissed it.
	Interrupted TaskInterruption `json:"interrupted,omitempty"`
	// Interruptions is how often it was lost at a restart, with those of the tasks that it retries by itself.
	Interruptions int `json:"interruptions,omitempty"`
	// Said is set if a person said its prompt to the agent.
	Said *Said `json:"said,omitempty"`
	// Ahead: it begins before the tasks that wait without it.
	Ahead bool `json:"ahead,omitempty"`
	// Waits is what a queued task waits for; nil if it begins next.
	Waits *TaskWait `json:"waits,omitempty"`
	// Stream is the format of its program's machine-readable output, if that is read.
	Stream string `json:"stream,omitempty"`
	// Steps are the last ones of it, StepCount is how many there were. Lists of tasks
	// have none.
	Steps     []Step `json:"steps,omitempty"`
	StepCount int    `json:"step_count,omitempty"`
	// Report is what its program reported in its machine-readable output.
	Report *TaskReport `json:"report,omitempty"`
	// Raw is where in the agent's raw log the machine-readable output is.
	Raw *OutputRange `json:"raw,omitempty"`
	// Output is where in the agent's output log its own is; none if nobody knows.
	Output *OutputRange `json:"output,omitempty"`
}

// TaskUse is what a task ran into and used.
type TaskUse struct {
	ReadsDenied   int64 `json:"reads_denied"`
	WritesDenied  int64 `json:"writes_denied"`
	LockConflicts int64 `json:"lock_conflicts"`
	// QuestionsDenied is as in Counters.
	QuestionsDenied int64 `json:"questions_denied,omitempty"`
	// WaitedMS is how long it waited for locks of others, in milliseconds.
	WaitedMS int64 `json:"waited_ms"`
	// MemoryPeakBytes is the most its sandbox used. With MemoryPeakEarlier that was
	// before the task, which used no more; 0 if the kernel does not count it.
	MemoryPeakBytes   int64 `json:"memory_peak_bytes,omitempty"`
	MemoryPeakEarlier bool  `json:"memory_peak_earlier,omitempty"`
	// MemoryStalledMS is how long some process of it waited for memory, in milliseconds;
	// 0 if the kernel does not measure it.
	MemoryStalledMS int64 `json:"memory_stalled_ms,omitempty"`
}

// OutputRange is a part of an output log, in bytes from the log's beginning. To
// is 0 while more may come.
type OutputRange struct {
	From int64 `json:"from"`
	To   int64 `json:"to,omitempty"`
}

// TaskBrief is an agent's last task, as lists of agents have it.
type TaskBrief struct {
	ID      string      `json:"id"`
	State   TaskState   `json:"state"`
	Outcome TaskOutcome `json:"outcome"`
	Result  string      `json:"result"`
	// Elsewhere is as in Task.
	Elsewhere []BranchWork `json:"elsewhere,omitempty"`
	// Queued is how many more wait for it to end, Waits what the first of them waits for; nil if it begins next.
	Queued int       `json:"queued,omitempty"`
	Waits  *TaskWait `json:"waits,omitempty"`
	// Interrupted is as in Task.
	Interrupted TaskInterruption `json:"interrupted,omitempty"`
}

// CommitRequest commits what an agent has in no commit.
type CommitRequest struct {
	// Message is the commit's; empty: made of the agent's last task.
	Message string `json:"message,omitempty"`
}

// CommitResponse is the commit that was made. Commit is empty if there was nothing to
// commit.
type CommitResponse struct {
	Agent  string `json:"agent"`
	Branch string `json:"branch,omitempty"`
	Commit string `json:"commit,omitempty"`
	Files  int    `json:"files"`
}

// DoneRequest ends the task of the agent that sends it, in its sandbox.
type DoneRequest struct {
	// By is "done" (the default) or "task_complete".
	By TaskEnd `json:"by,omitempty"`
	// Failed is true if the task did not succeed: its branch is not merged.
	Failed  bool   `json:"failed,omitempty"`
	Message string `json:"message,omitempty"`
	// CleanupStatus is what of its work is only in its worktree. The patrol measures the same, and
	// the worse of the two counts.
	CleanupStatus CleanupStatus `json:"cleanup_status,omitempty"`
}

// DoneResponse answers DoneRequest.
type DoneResponse struct {
	// RequestID is that of a TaskComplete.
	RequestID string `json:"requestId,omitempty"`
	Task      string `json:"task"`
	// Already: it had been ended so before; the first time counts.
	Already bool `json:"already,omitempty"`
	// Branches are the agent's branches, its first one first, and Target is where they are merged.
	Branches []string `json:"branches,omitempty"`
	Target   string   `json:"target,omitempty"`
}
