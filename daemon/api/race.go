package api

import (
	"slices"
	"time"
)

// Bounds of a race.
const (
	MaxRacers = 16
	// RaceTime is the usual bound of a race's tasks, RaceCheckTime that of one check, both in seconds.
	RaceTime      = 2 * 3600
	RaceCheckTime = 600
)

// RaceRequest gives one task to several new agents, which begin at the same commit.
type RaceRequest struct {
	Workspace string `json:"workspace,omitempty"`
	Task      string `json:"task"`
	// Agents are base types, N is how many agents of each take part; 0 is one.
	Agents []string `json:"agents"`
	N      int      `json:"n,omitempty"`
	// Command, Role, Model, MemoryMB, Egress and Force are as in AddRequest and RunRequest, for all.
	Command  []string `json:"command,omitempty"`
	Role     string   `json:"role,omitempty"`
	Model    string   `json:"model,omitempty"`
	MemoryMB int      `json:"memory_limit_mb,omitempty"`
	Egress   []string `json:"egress,omitempty"`
	Force    bool     `json:"force,omitempty"`
	// Check is a command for sh in each agent's sandbox when its task has ended well: one that
	// fails does not win.
	Check string `json:"check,omitempty"`
	// First ends the race at the first agent that passes. Merge merges the winner. Judge waits for
	// POST /v1/races/{id}/choose.
	First bool `json:"first,omitempty"`
	Merge bool `json:"merge,omitempty"`
	Judge bool `json:"judge,omitempty"`
	// Seconds bounds the tasks, CheckSeconds each check; 0: RaceTime, RaceCheckTime.
	Seconds      int `json:"seconds,omitempty"`
	CheckSeconds int `json:"check_seconds,omitempty"`
}

// Spec is what the request says of each agent.
func (r RaceRequest) Spec() AgentSpec {
	return AgentSpec{
		Workspace: r.Workspace, Role: r.Role, Command: slices.Clone(r.Command), MemoryMB: r.MemoryMB,
		Egress: slices.Clone(r.Egress), Force: r.Force,
	}
}

// RaceState is how far a race is.
type RaceState string

// The states of a race.
const (
	RaceRunning   RaceState = "running"
	RaceJudging   RaceState = "judging" // it waits for a choice
	RaceEnding    RaceState = "ending"  // the winner is chosen; it is merged, and the work of the others is saved in the trash
	RaceEnded     RaceState = "ended"
	RaceCancelled RaceState = "cancelled"
)

// RacerState is how far one agent of a race is.
type RacerState string

// The states of a racer.
const (
	RacerWaiting   RacerState = "waiting"
	RacerWorking   RacerState = "working"
	RacerChecking  RacerState = "checking"
	RacerEnded     RacerState = "ended"
	RacerCancelled RacerState = "cancelled"
	RacerFailed    RacerState = "failed" // it could not be added, or was lost: Error has the reason
)

// Race is one race with what is known of its agents.
type Race struct {
	ID        string      `json:"id"`
	Workspace string      `json:"workspace"`
	Request   RaceRequest `json:"request"`
	State     RaceState   `json:"state"`
	// Base is the commit that all begin at.
	Base      string     `json:"base"`
	CreatedAt time.Time  `json:"created_at"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
	Racers    []Racer    `json:"racers"`
	// Winner is an agent; empty if none passed, or none is chosen yet.
	Winner string `json:"winner,omitempty"`
	// MergeCommitSHA is the merge of the winner, Error why it was not merged, or what else failed.
	MergeCommitSHA string `json:"merge_commit_sha,omitempty"`
	Error          string `json:"error,omitempty"`
}

// Racer is one agent of a race.
type Racer struct {
	Agent    string     `json:"agent"`
	BaseType string     `json:"base_type"`
	State    RacerState `json:"state"`
	// Task is the ID of its task, Result how that ended, OK that it ended well.
	Task    string  `json:"task,omitempty"`
	Result  string  `json:"result,omitempty"`
	OK      bool    `json:"ok"`
	Seconds float64 `json:"seconds,omitempty"`
	// CheckCode is the exit status of the check, CheckOutput the end of what it printed.
	CheckCode   *int   `json:"check_code,omitempty"`
	CheckOutput string `json:"check_output,omitempty"`
	// Commits, Files, Insertions and Deletions are what it committed.
	Commits    int    `json:"commits"`
	Head       string `json:"head,omitempty"`
	Files      int    `json:"files"`
	Insertions int    `json:"insertions"`
	Deletions  int    `json:"deletions"`
	// Conflicts are the agents outside of the race that it would conflict with, and the target.
	Conflicts []string `json:"conflicts,omitempty"`
	// Models is what its task used of model services behind the gateway; nil if it used none.
	Models *ModelUse `json:"models,omitempty"`
	// CostUSD is what its program reports; nil if it reports none.
	CostUSD *float64 `json:"cost_usd,omitempty"`
	// Trash is the ref of its work in the trash. Gone: the agent was removed.
	Trash string `json:"trash,omitempty"`
	Gone  bool   `json:"gone,omitempty"`
	Error string `json:"error,omitempty"`
}

// ChooseRequest chooses the winner of a race.
type ChooseRequest struct {
	// Agent is one of its agents; empty: none wins.
	Agent string `json:"agent"`
}
