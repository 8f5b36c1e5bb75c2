package config

// Workspace is the [workspace] table: how agents get their files.
type Workspace struct {
	// Worktree is what a new agent's worktree is: WorktreeFull or WorktreeShared.
	Worktree string `toml:"worktree"`
}

// What Workspace.Worktree may be.
const (
	// WorktreeFull is a full checkout.
	WorktreeFull = "full"
	// WorktreeShared is a base tree, shared with the agents that start from the same files, with the
	// agent's changes above it (overlayfs).
	WorktreeShared = "shared"
)
