package api

import "time"

// SetupState is what there is of the setup of a workspace for its target branch.
type SetupState string

// The states.
const (
	SetupOff      SetupState = "off"       // no command is configured
	SetupNoInputs SetupState = "no-inputs" // the target branch has none of the input files
	SetupMissing  SetupState = "missing"   // it was not made yet
	SetupRunning  SetupState = "running"   // it is being made
	SetupReady    SetupState = "ready"     // new agents have it
	SetupFailed   SetupState = "failed"    // the command failed
)

// Setup is what the setup command of a workspace made ([workspace.setup]).
type Setup struct {
	Workspace string     `json:"workspace"`
	State     SetupState `json:"state"`
	Run       string     `json:"run"`
	Inputs    []string   `json:"inputs"`
	// RunningSince is when the current run began; it can be for an agent's commit.
	RunningSince *time.Time `json:"running_since,omitempty"`
	// FailedAt, Error and Log are of the last failed run for the target branch.
	FailedAt *time.Time `json:"failed_at,omitempty"`
	Error    string     `json:"error,omitempty"`
	Log      string     `json:"log,omitempty"`
	// RetryAfter is how long a failed command does not run again by itself, in seconds.
	RetryAfter int `json:"retry_after"`
	// Results are what is on the disk, the latest first.
	Results []SetupResult `json:"results"`
}

// SetupResult is what one run of the setup command made.
type SetupResult struct {
	ID string `json:"id"`
	// Current: new agents on the target branch get it.
	Current bool      `json:"current"`
	MadeAt  time.Time `json:"made_at"`
	Seconds float64   `json:"seconds"`
	Bytes   int64     `json:"bytes"`
	Files   int64     `json:"files"`
	// Outputs are the topmost names, at most 256 of them.
	Outputs []string `json:"outputs"`
	// Dropped is how many names that the command wrote are not part of it: tracked files, and files
	// that git does not ignore. Drops are some of them.
	Dropped int      `json:"dropped,omitempty"`
	Drops   []string `json:"drops,omitempty"`
	// Damaged describes damage: new agents do not get it.
	Damaged string `json:"damaged,omitempty"`
	Log     string `json:"log"`
	// Agents are those whose worktrees have it.
	Agents []string `json:"agents"`
}

// SetupRequest runs the setup command for the target branch. Again runs it also if there is a result.
type SetupRequest struct {
	Workspace string `json:"workspace,omitempty"`
	Again     bool   `json:"again,omitempty"`
}

// SetupLog is the output of the last run of a setup command. Text is the end of it.
type SetupLog struct {
	Workspace string `json:"workspace"`
	Log       string `json:"log"`
	Text      string `json:"text"`
	Truncated bool   `json:"truncated,omitempty"`
}
