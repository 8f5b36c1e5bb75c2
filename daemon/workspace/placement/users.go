package placement

import (
	"fmt"

	"polis/daemon/api"
	"polis/daemon/host/walk"
	"polis/daemon/store/layout"
)

// CheckUsers returns WORKSPACE_INVALID for a new workspace at root that a user could exchange, if the configuration
// does not permit it: polisd, which is root, reaches its files there by paths. byDefault is where workspaces lie that
// are given no path.
func CheckUsers(root layout.Workspace, permitted bool, byDefault string) error {
	by, err := walk.Exchangeable(string(root))
	if err != nil {
		return walk.Refused("the workspace "+string(root), err)
	}
	if by == "" || permitted {
		return nil
	}
	return api.Errorf(api.CodeWorkspaceInvalid, "the workspace %s could be exchanged by %s while polisd, which is root, works in it", root, by).
		WithHint("give no path, and polis makes it in %s; or, if you trust these users as root, set in_user_directories = true in [workspace] of polisd.toml", byDefault)
}

// UsersWarning returns a warning about an existing workspace that CheckUsers would refuse; "" if it would not.
func UsersWarning(name string, root layout.Workspace, permitted bool) string {
	by, err := walk.Exchangeable(string(root))
	if err != nil || by == "" || permitted {
		return "" // an error is one of opening the workspace
	}
	return fmt.Sprintf("workspace %s: %s could be exchanged by %s while polisd, which is root, works in it: make a workspace in a directory of root's instead, or set in_user_directories = true in [workspace] of polisd.toml", name, root, by)
}
