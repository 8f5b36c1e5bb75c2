package mergeflow

import (
	"fmt"
	"strings"

	"polis/daemon/api"
)

// Prompt returns the task of a rework: what failed, where, and what to do. branch is the branch that
// was not merged. Paths are quoted: an agent chose them.
func Prompt(s api.MergeSignal, branch string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The branch %s could not be merged into %s", branch, s.Target)
	if s.Code == api.CodeCheckFailed {
		b.WriteString(": the check of the merge result failed.\n")
	} else {
		b.WriteString(": both changed the same lines.\n")
	}
	if len(s.Paths) > 0 {
		b.WriteString("Files:\n")
		for _, p := range s.Paths {
			fmt.Fprintf(&b, "  %q\n", p)
		}
	}
	fmt.Fprintf(&b, "Merge %s and %s in your worktree: run git merge %s, and git merge %s if your branch is another one. Keep what both intend, resolve every conflict, run the project's tests, and commit. Change nothing else.\nRequest: %s\n",
		s.Target, branch, s.Target, branch, s.ID)
	return b.String()
}
