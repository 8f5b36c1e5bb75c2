package daemon

import (
	"context"
	"path/filepath"

	"polis/daemon/api"
	"polis/daemon/models"
)

// Usage sums what agents used of model services.
func (b *backend) Usage(_ context.Context, workspace, by, since string) ([]api.ModelUse, error) {
	b.mu.Lock()
	var dirs []string
	for name, w := range b.workspaces {
		if workspace == "" || workspace == name {
			dirs = append(dirs, filepath.Dir(w.root.Logs("agent")))
		}
	}
	b.mu.Unlock()
	if workspace != "" && len(dirs) == 0 {
		return nil, api.Errorf(api.CodeWorkspaceNotFound, "there is no workspace %q", api.Shorten(workspace, 64))
	}
	return models.Usage(dirs, by, since)
}
