package config

// Workspace is the [workspace] table: how agents get their files.
type Workspace struct {
	// Worktree is what a new agent's worktree is: WorktreeFull or WorktreeShared.
	Worktree string `toml:"worktree"`
	// Layers is which of overlay and view is above the other in a worktree that is WorktreeShared:
	// LayersView or LayersAuto.
	Layers string `toml:"layers"`
	// InUserDirectories permits new workspaces in directories of users, who decide what is at the path of
	// the workspace.
	InUserDirectories bool  `toml:"in_user_directories"`
	Setup             Setup `toml:"setup"`
}

// What Workspace.Layers may be.
const (
	// LayersView: the view is above the overlay, and serves everything.
	LayersView = "view"
	// LayersAuto: the overlay is above the view for an agent whose rules withhold no file from
	// reading. Files that it has not changed are then read from the base tree directly.
	LayersAuto = "auto"
)

// What Workspace.Worktree may be.
const (
	// WorktreeFull is a full checkout.
	WorktreeFull = "full"
	// WorktreeShared is a base tree, shared with the agents that start from the same files, with the
	// agent's changes above it (overlayfs).
	WorktreeShared = "shared"
)
