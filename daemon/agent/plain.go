package agent

import "polis/daemon/api"

// NeedsGit returns the error for an operation that needs a repository: BAD_STATE, and what to do.
func (w *Workspace) NeedsGit(what string) error {
	if w.Git && w.Queue != nil {
		return nil
	}
	return api.Errorf(api.CodeBadState, "workspace %s is not a git repository: %s", w.Name, what).
		WithHint("its agents change the files in %s directly; for branches, merges and undo: git init there and commit, remove its agents, polisctl up again", w.Project)
}
