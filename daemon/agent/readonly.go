package agent

import (
	"polis/daemon/api"
	"polis/daemon/store"
)

// maxCommitName is the longest name of a commit in a request, in bytes.
const maxCommitName = 200

// ReadOnly returns the error for an operation that needs a branch, or changed files.
func ReadOnly(name, what string) error {
	return api.Errorf(api.CodeReadOnly, "agent %s is read-only: it has no branch and no changes, so it cannot %s", name, what).
		With("agent", name).WithHint("polisctl agents add without --read-only adds an agent that has a branch")
}

// changes returns an error if the agent is read-only; what names the operation.
func (a *Agent) changes(what string) error {
	if a.Kept.ReadOnly {
		return ReadOnly(a.Name(), what)
	}
	return nil
}

// where describes what the agent works on, for messages.
func (a *Agent) where() string {
	if a.Kept.ReadOnly {
		return "read-only"
	}
	return "on branch " + a.Kept.Branch
}

// checkReadOnly rejects what a read-only agent cannot have.
func checkReadOnly(ws *Workspace, req api.AddRequest) error {
	bad := func(field string) error {
		return api.Errorf(api.CodeBadRequest, "%s cannot be set for a read-only agent: it has no branch and changes nothing", field)
	}
	switch {
	case !req.ReadOnly && req.At != "":
		return api.Errorf(api.CodeBadRequest, "at = %q: only a read-only agent sees a given commit", api.Shorten(req.At, 64))
	case !req.ReadOnly:
		return nil
	case len(req.At) > maxCommitName:
		return api.Errorf(api.CodeBadRequest, "at has %d bytes: at most %d", len(req.At), maxCommitName)
	case req.Branch != "":
		return bad("branch")
	case len(req.Sparse) > 0:
		return bad("sparse")
	case req.AutoMerge != nil && *req.AutoMerge:
		return bad("auto_merge")
	case req.RemoveAfter != nil && *req.RemoveAfter:
		return bad("remove_after")
	case req.Policy != nil && len(req.Policy.Exclusive) > 0:
		return bad("exclusive")
	}
	return ws.NeedsGit("a read-only agent sees the files of a commit")
}

// readOnlySet applies the same to changed settings.
func readOnlySet(now *store.Agent, req api.SetRequest) error {
	if !now.ReadOnly {
		return nil
	}
	if req.AutoMerge != nil && *req.AutoMerge || req.RemoveAfter != nil && *req.RemoveAfter || req.Policy != nil && len(req.Policy.Exclusive) > 0 {
		return ReadOnly(now.Name, "be merged, or have paths for itself")
	}
	now.Policy.Exclusive = nil // of its role
	return nil
}
