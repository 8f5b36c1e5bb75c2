package launch

import (
	"fmt"
	"strings"

	"github.com/moby/sys/mountinfo"

	"polis/daemon/api/wire"
	"polis/daemon/store/layout"
)

// mounts returns the mount points of an agent's views. It reads the kernel's table
// (proc_pid_mountinfo(5)) because stat(2) blocks on a view whose server is stopped.
func (s *Shims) mounts(name string) ([]string, error) {
	all, err := s.viewMounts(name)
	var out []string
	for _, m := range all {
		out = append(out, m.Mountpoint)
	}
	return out, err
}

// viewMounts returns the mounts of an agent's views, and of its snapshots.
func (s *Shims) viewMounts(name string) ([]*mountinfo.Info, error) {
	var roots []layout.Workspace
	for _, root := range s.Roots() {
		roots = append(roots, root)
	}
	mounts, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		return !wire.IsSnapshot(m.FSType, m.Source, s.Run.Agent(name)) && s.viewOf(m, roots) != name, false
	})
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	return mounts, nil
}

// viewOf returns the agent of this polisd whose view a mount is; "" for none.
func (s *Shims) viewOf(m *mountinfo.Info, roots []layout.Workspace) string {
	name, ok := strings.CutPrefix(m.Source, "polis:")
	if !ok || name == "" || !strings.HasPrefix(m.FSType, "fuse") {
		return ""
	}
	for _, root := range roots {
		if layout.Below(m.Mountpoint, root.Worktree(name)) {
			return name
		}
	}
	if layout.Below(m.Mountpoint, s.Run.Agent(name)) {
		return name
	}
	return ""
}
