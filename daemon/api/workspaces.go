package api

// MoveRequest records another directory as the project of a workspace.
type MoveRequest struct {
	// Path is the directory, absolute. It must belong to the owner of the recorded one.
	Path string `json:"path"`
}

// DownRequest takes a workspace away from polis.
type DownRequest struct {
	// Force removes agents that run or have work that is nowhere else, too;
	// Ignored saves ignored files with the rest.
	Force, Ignored bool
}

// DownResponse is a workspace that is not under polis any more. Its directory
// is left as it is, with its trash.
type DownResponse struct {
	Workspace string           `json:"workspace"`
	Path      string           `json:"path"`
	Removed   []RemoveResponse `json:"removed"` // its agents
	// Gone: its directory was not there any more; it was only forgotten.
	Gone bool `json:"gone,omitempty"`
}
