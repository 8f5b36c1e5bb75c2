package placement

import (
	"errors"
	"os"

	"polis/daemon/api"
	"polis/daemon/store"
	"polis/daemon/store/layout"
)

// Find returns the listed workspace that a name or a path means.
func Find(reg store.Registry, what string) (name string, root layout.Workspace, listed bool) {
	if path, ok := reg.Workspaces[what]; ok {
		return what, layout.Workspace(path), true
	}
	for name, path := range reg.Workspaces {
		if path == what {
			return name, layout.Workspace(path), true
		}
	}
	return "", "", false
}

// MayForget refuses to forget a workspace that could not be opened, unless its directory is gone. One
// that exists or cannot be reached can contain work.
func MayForget(name string, root layout.Workspace) error {
	_, err := os.Lstat(root.Dir())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = errors.New("its directory exists")
	}
	return api.Errorf(api.CodeWorkspaceInvalid, "workspace %s at %s could not be opened and is not gone: it is kept: %w", name, root, err).
		WithHint("polisctl status shows why it could not be opened; polisctl up --repo PATH %s opens it when that is fixed", root)
}
