package api

import "fmt"

// BranchWork is committed work of an agent that a merge of the agent does not contain: on a branch that it
// made, or on a detached HEAD.
type BranchWork struct {
	// Branch is the name of the branch, "" of a detached HEAD.
	Branch  string `json:"branch,omitempty"`
	Commits int    `json:"commits"`
	// Run is the command that merges them.
	Run string `json:"run"`
}

// Where names the branch in words.
func (b BranchWork) Where() string {
	if b.Branch == "" {
		return "a detached HEAD"
	}
	return b.Branch
}

// Text is the work and the command in words.
func (b BranchWork) Text() string {
	return Count(b.Commits, "commit") + " on " + b.Where() + " not merged: " + b.Run
}

// BranchesText is the text of the first of them and the number of the others, which the command rest lists; "" of none.
func BranchesText(all []BranchWork, rest string) string {
	if len(all) == 0 {
		return ""
	}
	text := all[0].Text()
	if more := len(all) - 1; more > 0 {
		text += fmt.Sprintf(" (and %s more: %s)", Count(more, "branch"), rest)
	}
	return text
}

// Stranded reports whether all that a task committed is where no merge of its agent finds it.
func (t Task) Stranded() bool {
	return t.Outcome == OutcomeNotMerged && len(t.Elsewhere) > 0 && (t.Code == CodeNothingToMerge || t.Code == "" && t.Commits == 0)
}
