package api

import "time"

// Conflicts is what agents of one workspace would run into: the answer to GET
// /v1/conflicts has one per workspace. Only commits are tried; changes that no
// commit holds are known by their paths.
type Conflicts struct {
	Workspace string `json:"workspace"`
	Target    string `json:"target"`
	// Pending: the result is that of the last scan, and another one is running.
	Pending  bool             `json:"pending,omitempty"`
	Branches []ConflictBranch `json:"branches"`
	Paths    []ConflictPath   `json:"paths"`
	// PathsTotal counts also what Paths has no room for.
	PathsTotal int             `json:"paths_total"`
	Merges     []ConflictMerge `json:"merges"`
	// Tried counts the merges that were tried, Skipped those that were too many.
	Tried   int      `json:"tried"`
	Skipped int      `json:"skipped,omitempty"`
	Errors  []string `json:"errors,omitempty"`
}

// ConflictBranch is an agent's branch as it was read.
type ConflictBranch struct {
	Agent  string `json:"agent"`
	Branch string `json:"branch"`
	Commit string `json:"commit"`
	// Base is where it left the target.
	Base        string `json:"base,omitempty"`
	Committed   int    `json:"committed"`   // paths its commits change
	Uncommitted int    `json:"uncommitted"` // paths its worktree changes beyond them
	// Truncated: it changes more paths than are compared.
	Truncated bool `json:"truncated,omitempty"`
}

// ConflictPath is a path that is changed by more than one agent, leased by one
// and changed by another, or waited for.
type ConflictPath struct {
	Path      string           `json:"path"`
	ChangedBy []ConflictChange `json:"changed_by"`
	LeasedBy  []string         `json:"leased_by"`
	AwaitedBy []string         `json:"awaited_by"`
}

// ConflictChange is one agent's part in a path.
type ConflictChange struct {
	Agent       string `json:"agent"`
	Committed   bool   `json:"committed"`
	Uncommitted bool   `json:"uncommitted"`
}

// ConflictMerge is a merge that would not go through.
type ConflictMerge struct {
	// Agents are the two whose branches conflict; one, if it is with the target.
	Agents   []string  `json:"agents"`
	Branches []string  `json:"branches"`
	Paths    []string  `json:"paths"` // at most 100 of Total
	Total    int       `json:"total"`
	Since    time.Time `json:"since"`
	// Error is the reason why the merge could not be tried.
	Error string `json:"error,omitempty"`
}

// ConflictCount is the line about conflicts in the daemon's status.
type ConflictCount struct {
	Merges int `json:"merges"` // merges that would not go through
	Paths  int `json:"paths"`  // paths changed by more than one agent, as last read
}
