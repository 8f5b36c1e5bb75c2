package api

import (
	"fmt"
	"time"
)

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
	// Waiting has, for each waiter, what it waits for and since when.
	Waiting []Waiter `json:"waiting,omitempty"`
	// Hold is how long the lock lasts: "explicit" (until given back), "merge",
	// or "use" (as long as the agent's rules say after its last write).
	Hold string `json:"hold,omitempty"`
	Op   string `json:"op,omitempty"`
	// Changed is set if the path has changed on the target since the agent's branch left it. Only
	// in the answer to an agent that locks it.
	Changed *TargetChange `json:"changed,omitempty"`
}

// TargetChange is a change of a file on the target branch that an agent's branch does not have.
type TargetChange struct {
	Path   string `json:"path"`
	Target string `json:"target"`
	Commit string `json:"commit"` // the last one, abbreviated
	Author string `json:"author"`
}

// Text describes the change, and how the agent gets it.
func (c TargetChange) Text() string {
	return fmt.Sprintf("%s has changed on %s since this branch left it (%s by %s): commit, and git merge %s brings the change in", c.Path, c.Target, c.Commit, c.Author, c.Target)
}

// Waiter is an agent (or person) that wants a path that another holder has locked.
type Waiter struct {
	Holder string    `json:"holder"`
	Since  time.Time `json:"since"`
	Op     string    `json:"op,omitempty"`
}

// InsideLocks is an agent's view of its own locks.
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

// WaitResponse is sent when the agent's turn has come.
type WaitResponse struct {
	Path         string `json:"path"`
	WaitedMillis int64  `json:"waited_ms"`
	KeptMillis   int64  `json:"kept_ms"`
	// Changed is set if the path has changed on the target since the agent's branch left it.
	Changed *TargetChange `json:"changed,omitempty"`
}

// LockRequest acquires or releases an explicit lock.
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
