package main

import (
	"fmt"
	"strings"
	"time"

	"polis/cmd/internal/agenttext"
	"polis/daemon/api"
)

// who is the name of the one who did something, for people.
func who(by string) string { return agenttext.Who(by) }

// endLine is what polisctl run ends with: "claude.3 ended well in 41s: 2 commits, merged as 2a89de9".
func endLine(t api.Task) string {
	parts := []string{api.Count(t.Commits, "commit")}
	if t.Uncommitted > 0 && t.Outcome != api.OutcomeUncommitted {
		parts = append(parts, api.Count(t.Uncommitted, "uncommitted file"))
	}
	result := t.Result
	if t.Outcome == api.OutcomeNotMerged && t.Code == "" && t.Commits > 0 {
		// The result begins with the number of commits, and without auto_merge nothing else keeps them from the queue.
		rest, ok := strings.CutPrefix(result, parts[0]+", not merged")
		if ok {
			result = "not merged (auto-merge is off)" + rest
		}
	}
	if cutText.MatchString(result) {
		result += ": polisctl tasks show " + t.ID
	}
	return fmt.Sprintf("%s %s %s: %s", t.ID, howEnded(t), span(time.Duration(t.Seconds*float64(time.Second))), strings.Join(append(parts, result), ", "))
}

// howEnded says how a task ended; its time follows.
func howEnded(t api.Task) string {
	switch t.EndedBy {
	case api.EndDone, api.EndComplete:
		if t.Failed {
			return "reported a failure after"
		}
		return "reported its end after"
	case api.EndStop, api.EndBudget:
		return "was stopped after"
	case api.EndCancel:
		return "was cancelled after"
	case api.EndLost:
		return "was lost after"
	case api.EndExit:
	}
	switch {
	case t.ExitCode == nil:
		return "ended after"
	case *t.ExitCode == 0:
		return "ended well in"
	}
	return fmt.Sprintf("ended with exit code %d after", *t.ExitCode)
}
