package api

import (
	"fmt"
	"time"
)

// ReconcileReport is what polisd found when it started, and did about it (seed
// 000, "State Reconciliation on Startup"). Entries are sentences for people
// that begin with what they are about.
type ReconcileReport struct {
	At         time.Time `json:"at"`
	TookMillis int64     `json:"took_ms"`
	Adopted    []string  `json:"adopted"`  // their shim lived on
	Restored   []string  `json:"restored"` // brought up again
	Kept       []string  `json:"kept"`     // known, and not up
	Skipped    []string  `json:"skipped"`  // known, with a worktree that cannot be used
	Dropped    []string  `json:"dropped"`  // state without worktree
	Found      []string  `json:"found"`    // worktree without state
	Healed     []string  `json:"healed"`   // half done or left over, finished or undone
	Errors     []string  `json:"errors"`
}

// Summary is the report in one line.
func (r ReconcileReport) Summary() string {
	return fmt.Sprintf("%d adopted, %d restored, %d kept, %d skipped, %d dropped, %d found, %d healed, %d errors",
		len(r.Adopted), len(r.Restored), len(r.Kept), len(r.Skipped), len(r.Dropped), len(r.Found), len(r.Healed), len(r.Errors))
}
