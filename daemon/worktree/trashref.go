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
	// Nested are directories with a git repository of their own, which a ref cannot contain.
	// Discard keeps such a worktree's directory in the trash.
	Nested []string
	// Large are files that are too large for git; like Nested, they are kept in the trash
	// directory.
	Large []string
	// Refs are the refs that only the agent had, and Objects those of them that name no commit: like Nested,
	// they are kept in the trash directory.
	Refs    map[string]string
	Objects []string
	// Unread is why those refs are not known.
	Unread error
	// Worktrees are those that the agent made itself. Like Nested, they are kept in the trash directory.
	Worktrees []string
	// Torn are files that changed while they were read.
	Torn []string
}

// Partial returns why the ref does not contain all of the worktree; nil if it does. Repositories
// inside the worktree have objects of their own.
func (t TrashRef) Partial() error {
	switch {
	case len(t.Nested) > 0:
		return fmt.Errorf("it holds repositories of its own: %q", t.Nested[:min(len(t.Nested), 10)])
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
