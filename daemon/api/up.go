package api

// UpRequest makes or finds a workspace. Repo is a directory or a URL.
type UpRequest struct {
	Repo   string `json:"repo"`
	Path   string `json:"path,omitempty"`
	Target string `json:"target,omitempty"`
	// AdoptGit takes the .git that a plain directory has now for the project's
	// own. Agents could write there: the caller has checked its config and hooks.
	AdoptGit bool `json:"adopt_git,omitempty"`
	// Clone makes a clone of a bare repository that has worktrees, which is refused otherwise.
	Clone bool `json:"clone,omitempty"`
}

// UpResponse answers UpRequest.
type UpResponse struct {
	Workspace Workspace `json:"workspace"`
	Created   bool      `json:"created"`
	Warnings  []string  `json:"warnings,omitempty"`
	// ClonedFrom is the bare repository that the project is a new clone of.
	ClonedFrom string `json:"cloned_from,omitempty"`
}
