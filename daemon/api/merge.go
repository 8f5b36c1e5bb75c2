package api

// MergeRequest merges an agent's branch into the target branch.
type MergeRequest struct {
	Message string `json:"message,omitempty"`
	DryRun  bool   `json:"dry_run,omitempty"`
	// NoCheck merges without the check command.
	NoCheck bool `json:"no_check,omitempty"`
	// AcceptProtected accepts changes of protected paths.
	AcceptProtected bool `json:"accept_protected,omitempty"`
	// RemoveAfter removes the agent afterwards, worktree and own branch too.
	RemoveAfter bool `json:"remove_after,omitempty"`
	// Head is the full id of the commit that the branch must be at: what the person
	// has read. Empty: any commit.
	Head string `json:"head,omitempty"`
	// Sign returns what a person signs, and merges nothing. Signed is the raw commit that was signed.
	Sign   bool   `json:"sign,omitempty"`
	Signed []byte `json:"signed,omitempty"`
}

// MergeResponse is a merge that happened.
type MergeResponse struct {
	Agent          string      `json:"agent"`
	Branch         string      `json:"branch"`
	Target         string      `json:"target"`
	MergeCommitSHA string      `json:"merge_commit_sha,omitempty"`
	MergeStatus    MergeStatus `json:"merge_status"`
	Project        string      `json:"project,omitempty"`
	DryRun         bool        `json:"dry_run,omitempty"`
	// Head is the commit the branch is at, in a dry run.
	Head  string   `json:"head,omitempty"`
	Paths []string `json:"paths,omitempty"`
	// Protected are the paths that need AcceptProtected, with the reason.
	Protected []ProtectedPath `json:"protected,omitempty"`
	Note      string          `json:"note,omitempty"`
	// Elsewhere is committed work that the merge does not contain.
	Elsewhere []BranchWork `json:"elsewhere,omitempty"`
	// Removed: the agent was removed afterwards.
	Removed bool   `json:"removed,omitempty"`
	Log     string `json:"log,omitempty"` // what the check printed
	// ToSign is the answer to MergeRequest.Sign.
	ToSign *ToSign `json:"to_sign,omitempty"`
}

// ProtectedPath is a path that a person has to accept.
type ProtectedPath struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}
