package api

import "time"

// PatrolClass is what is wrong with an agent (seed 004, "Zombie Detection Algorithm"; stalled and
// spinning are polis' own).
type PatrolClass string

// The classes.
const (
	PatrolSessionDead PatrolClass = "session-dead"  // its shim is gone, and its state says that it lives
	PatrolAgentDead   PatrolClass = "agent-dead"    // its program has ended, and its state says Running
	PatrolStuckInDone PatrolClass = "stuck-in-done" // it said that it is done, and its program does not end
	PatrolTaskClosed  PatrolClass = "task-closed"   // its task was cancelled or stopped, and its program does not end
	PatrolStalled     PatrolClass = "stalled"       // it makes no progress, and waits for nothing, or for its model for too long
	PatrolSpinning    PatrolClass = "spinning"      // it works, and changes nothing
)

// What the patrol does about a stalled or spinning agent: on_stall of a role.
const (
	OnStallReport  = "report"
	OnStallNudge   = "nudge"
	OnStallRestart = "restart"
	OnStallStop    = "stop"
)

// PatrolAgent is what the patrol sees of an agent that lives, or is in Error.
type PatrolAgent struct {
	Agent     string `json:"agent"`
	Workspace string `json:"workspace"`
	Status    Status `json:"status"`
	// Reason is why it is in Error.
	Reason string `json:"reason,omitempty"`
	Task   string `json:"task,omitempty"`
	// QuietSeconds is for how long it has made no progress, UnchangedSeconds for how long it has
	// changed nothing. Both begin again with the agent's program, and with polisd.
	QuietSeconds     float64 `json:"quiet_seconds"`
	UnchangedSeconds float64 `json:"unchanged_seconds"`
	// Waits is what it waits for or works on. Of an agent that is not quiet the patrol knows of questions, its
	// model and its calls only.
	Waits string `json:"waits,omitempty"`
	// Error is why it could not be observed. It is then left alone.
	Error string `json:"error,omitempty"`
}

// PatrolFinding is an agent that something is wrong with.
type PatrolFinding struct {
	Class      PatrolClass `json:"class"`
	Agent      string      `json:"agent"`
	Workspace  string      `json:"workspace"`
	Generation uint64      `json:"generation"`
	Task       string      `json:"task,omitempty"`
	// Since is when the state began that the finding is about.
	Since time.Time `json:"since"`
	// Evidence is what was seen, one fact each.
	Evidence []string `json:"evidence"`
	// Action is what the agent's role and the class ask for: "report", "nudge", "restart", "stop",
	// "end-program" or "reconcile". Done says that it was done, Skipped why it was not.
	Action  string `json:"action"`
	Done    bool   `json:"done"`
	Skipped string `json:"skipped,omitempty"`
	// Next is what a person can do.
	Next string `json:"next"`
}

// PatrolReport is one cycle of the patrol.
type PatrolReport struct {
	At     time.Time `json:"at"`
	Millis int64     `json:"ms"`
	// DryRun: nothing was done about the findings.
	DryRun   bool            `json:"dry_run,omitempty"`
	Agents   []PatrolAgent   `json:"agents"`
	Findings []PatrolFinding `json:"findings"`
	// Cases counts the cases as they were after the cycle.
	Cases CaseDigest `json:"cases"`
	// Cleanups are about ephemeral agents whose work has ended.
	Cleanups []Cleanup `json:"cleanups"`
}

// PatrolRequest asks for a cycle now.
type PatrolRequest struct {
	DryRun bool `json:"dry_run,omitempty"`
}
