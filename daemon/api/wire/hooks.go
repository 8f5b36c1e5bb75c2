package wire

import "path/filepath"

// Places of the hooks of a project.
const (
	HooksInGit   = "git"     // the directory hooks of its git directory
	HooksInTree  = "tree"    // a directory of its checkout
	HooksOutside = "outside" // any other directory
)

// GitHooks are the git hooks of the project, as the git of its owner finds them (package githooks).
type GitHooks struct {
	// Run: the agent's git runs them, in its sandbox.
	Run   bool   `json:"run,omitempty"`
	Place string `json:"place"`
	// Dir is their directory: in the checkout for HooksInTree, absolute for HooksOutside.
	Dir   string   `json:"dir,omitempty"`
	Names []string `json:"names"`
	// Tracked: all files in Dir are of the repository, so that an agent has its own.
	Tracked bool `json:"tracked,omitempty"`
}

// HooksPath is the directory of an agent's git hooks in the sandbox.
const HooksPath = InsideDir + "/hooks"

// Runs reports whether the agent's git runs the hooks. Those outside of the project do not run.
func (h *GitHooks) Runs() bool { return h != nil && h.Run && h.Place != HooksOutside }

// Shown is the path in the sandbox of the files that the agent gets of the hooks; "" if it gets none.
func (h *GitHooks) Shown() string {
	switch {
	case !h.Runs() || h.Tracked:
		return ""
	case h.Place == HooksInTree:
		return filepath.Join(HooksPath, "tree", h.Dir)
	}
	return filepath.Join(HooksPath, "git")
}

// Config is core.hooksPath of the agent's git; "" to leave it.
func (h *GitHooks) Config() string {
	if h.Runs() && h.Tracked {
		return h.Dir // git takes it from the top of the worktree
	}
	return h.Shown()
}
