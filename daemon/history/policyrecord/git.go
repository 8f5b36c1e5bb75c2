package policyrecord

import (
	"path"
	"slices"
	"strings"

	"polis/daemon/api"
)

// refreshing are the commands of git that read a file of the worktree only to compare it with the index, or
// to store what the agent has written.
var refreshing = []string{"add", "am", "checkout", "cherry-pick", "clean", "commit", "diff", "diff-files", "diff-index", "ls-files", "merge", "mv", "pull", "read-tree", "rebase",
	"reset", "restore", "revert", "rm", "stash", "status", "switch", "update-index"}

// refreshes reports whether a read is one of git's own, and no file that git takes rules from, such as
// .gitignore. An agent that names another program so only has less in its role.
func refreshes(o api.Open) bool {
	if path.Base(o.Program) != "git" || strings.HasPrefix(path.Base(o.Path), ".git") {
		return false
	}
	words := strings.Fields(o.Command)
	for i := 1; i < len(words); i++ {
		switch w := words[i]; {
		case w == "-C" || w == "-c":
			i++
		case strings.HasPrefix(w, "-"):
		default:
			return slices.Contains(refreshing, w) && !slices.Contains(words[i:], "--no-index")
		}
	}
	return false
}
