package api

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// CleanupStatus is what of an agent's work is nowhere else (seed 004, "Auto-Nuke Safety Protocol").
type CleanupStatus string

// The statuses, in the order of the seed: each is worse than the one before.
const (
	CleanupClean       CleanupStatus = "clean"           // nothing
	CleanupUncommitted CleanupStatus = "has_uncommitted" // changes in no commit
	CleanupStash       CleanupStatus = "has_stash"
	CleanupUnpushed    CleanupStatus = "has_unpushed" // commits in neither the target, nor a remote's default branch, nor the branch of its parent
	CleanupUnknown     CleanupStatus = "unknown"      // it could not be measured; an agent cannot report it
)

var cleanupOrder = []CleanupStatus{"", CleanupClean, CleanupUncommitted, CleanupStash, CleanupUnpushed, CleanupUnknown}

// Worse returns the worse of two statuses. An empty one is none.
func (s CleanupStatus) Worse(o CleanupStatus) CleanupStatus {
	if slices.Index(cleanupOrder, s) >= slices.Index(cleanupOrder, o) {
		return s
	}
	return o
}

// CheckCleanup rejects a status that an agent cannot report; "" is none.
func CheckCleanup(s CleanupStatus) error {
	reported := cleanupOrder[:len(cleanupOrder)-1]
	if slices.Contains(reported, s) {
		return nil
	}
	names := make([]string, 0, len(reported))
	for _, r := range reported[1:] {
		names = append(names, string(r))
	}
	return Errorf(CodeBadRequest, "cleanup status %q: must be one of %s", Shorten(string(s), 64), strings.Join(names, ", "))
}

// What is done about an agent whose work has ended.
const (
	CleanupRemove   = "remove"   // nothing of it is only there: it is removed
	CleanupKeep     = "keep"     // it stays, for a person to look at
	CleanupEscalate = "escalate" // it stays, and a person is notified
)

// Cleanup is the patrol's decision about an ephemeral agent whose work has ended.
type Cleanup struct {
	Agent     string `json:"agent"`
	Workspace string `json:"workspace"`
	Task      string `json:"task,omitempty"`
	// Why is why its work has ended.
	Why string `json:"why"`
	// Reported is what the agent reported with its task's end, Measured what the patrol found. The
	// worse of the two is Status.
	Reported CleanupStatus `json:"reported,omitempty"`
	Measured CleanupStatus `json:"measured"`
	Status   CleanupStatus `json:"status"`
	// Evidence is what was seen, one fact each.
	Evidence []string `json:"evidence"`
	// Action is "remove", "keep" or "escalate". Done says that it was done, Skipped why it was not.
	Action  string    `json:"action"`
	Done    bool      `json:"done"`
	Skipped string    `json:"skipped,omitempty"`
	At      time.Time `json:"at"`
	// Trash is the ref of its work in the trash; empty if the target has all of it.
	Trash string `json:"trash,omitempty"`
	// Next is what a person can do.
	Next string `json:"next,omitempty"`
}

// Text is the decision in one line.
func (c Cleanup) Text() string {
	text := fmt.Sprintf("agent %s: %s, %s: %s", c.Agent, c.Why, c.Status, strings.Join(c.Evidence, "; "))
	switch {
	case c.Skipped != "":
		text += "; not done (" + c.Action + "): " + c.Skipped
	case c.Action == CleanupRemove:
		text += "; removed"
	default:
		text += "; kept"
	}
	return text
}
