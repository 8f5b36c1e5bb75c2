package worktree

import (
	"fmt"
	"time"
)

// TrashRef is saved work.
type TrashRef struct {
	// Ref is refs/polis/trash/<agent>/<UTC time>; empty if there was nothing to save.
	Ref    string
	Commit string
	Agent  string
	Branch string // the branch of the work
	Head   string // the commit of the worktree; empty if there was none
	Time   time.Time
	// Paths are the files that differ from Head, at most 100.
	Paths []string
	// Nested are directories with a git repository of their own, which a ref cannot contain. They are copied to
	// a directory of the trash that belongs to the ref, from which Restore takes them.
	Nested []string
	// Large are files that are too large for git. Discard keeps the directory of such a worktree in the trash.
	Large []string
	// Refs are the refs that only the agent had, and Objects those of them that name no commit: like Large,
	// they are kept in the trash directory.
	Refs    map[string]string
	Objects []string
	// Unread is why those refs are not known.
	Unread error
	// Worktrees are those that the agent made itself. Like Large, they are kept in the trash directory.
	Worktrees []string
	// Torn are files that changed while they were read.
	Torn []string
}

// Partial returns why the ref, with the copies of the repositories inside the worktree, does not contain all of it;
// nil if it does.
func (t TrashRef) Partial() error {
	switch {
	case len(t.Worktrees) > 0:
		return fmt.Errorf("it has git worktrees of its own: %q", t.Worktrees[:min(len(t.Worktrees), 10)])
	case t.Unread != nil:
		return t.Unread
	case len(t.Objects) > 0:
		return fmt.Errorf("it holds refs that name no commits: %q", t.Objects[:min(len(t.Objects), 10)])
	case len(t.Large) > 0:
		return fmt.Errorf("it holds files that are too large for git, or mostly holes: %q", t.Large[:min(len(t.Large), 10)])
	}
	return nil
}
