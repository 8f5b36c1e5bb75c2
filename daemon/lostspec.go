package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"polis/cgroup"
	"polis/daemon/agent"
	"polis/daemon/api/wire"
	"polis/daemon/host/private"
	"polis/daemon/store"
	"polis/daemon/store/layout"
	"polis/daemon/workspace/placement"

	"github.com/moby/sys/mountinfo"
)

// errNothingLeft reports that a shim without a spec has left nothing behind.
var errNothingLeft = errors.New("the shim has left nothing")

// agentNamed returns an agent of which only the name is known.
func agentNamed(name string) *agent.Agent {
	return &agent.Agent{WS: &agent.Workspace{}, Kept: store.Agent{Name: name}}
}

// recreateSpec writes the spec of an agent whose shim has lost its own. With the spec the shim program
// can remove what the shim left: mounts, the control group and processes. It returns
// errNothingLeft if none exists.
func (s *shims) recreateSpec(a *agent.Agent, dir string) error {
	mounts, err := s.mounts(a.Name())
	if err != nil {
		return err
	}
	group, delegated := s.cgroup(a.Name())
	left, err := groupLeft(group)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) && len(mounts) == 0 && !left {
		return errNothingLeft
	}
	spec := wire.Spec{Version: wire.Version, Agent: a.Name(), RunDir: dir, CgroupPath: group, Delegated: delegated}
	if a.WS.Root != "" {
		spec = s.env.Spec(a, dir)
	}
	for _, m := range mounts {
		if path.Base(path.Dir(m)) == "worktrees" {
			spec.Mountpoint = cmp.Or(spec.Mountpoint, m)
		}
	}
	if err := private.Dir(dir); err != nil {
		return err
	}
	s.log.Warn("shim has no spec; its mounts and control group are removed by name", "agent", a.Name(), "mounts", mounts, "cgroup", left)
	return store.WriteSummed(s.run.AgentSpec(a.Name()), spec)
}

// groupLeft reports whether the control group of an agent, of its shim or of its sandbox exists.
func groupLeft(sandbox string) (bool, error) {
	h, err := cgroup.Detect()
	if err != nil {
		return false, err
	}
	g, err := h.Group(path.Dir(sandbox))
	if err != nil {
		return false, err
	}
	// The daemon's own git can run there even if the shim is gone.
	names, err := h.List(g.Path)
	return g.Exists() && !slices.Equal(names, []string{gitLeaf}), err
}

// mounts returns the mount points of an agent's views. It reads the kernel's table
// (proc_pid_mountinfo(5)) because stat(2) blocks on a view whose server is stopped.
func (s *shims) mounts(name string) ([]string, error) {
	all, err := s.viewMounts(name)
	var out []string
	for _, m := range all {
		out = append(out, m.Mountpoint)
	}
	return out, err
}

// viewMounts returns the mounts of an agent's views, and of its snapshots.
func (s *shims) viewMounts(name string) ([]*mountinfo.Info, error) {
	var roots []layout.Workspace
	for _, root := range s.roots() {
		roots = append(roots, root)
	}
	mounts, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		return !wire.IsSnapshot(m.FSType, m.Source, s.run.Agent(name)) && s.viewOf(m, roots) != name, false
	})
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	return mounts, nil
}

// viewOf returns the agent of this polisd whose view a mount is; "" for none.
func (s *shims) viewOf(m *mountinfo.Info, roots []layout.Workspace) string {
	name, ok := strings.CutPrefix(m.Source, "polis:")
	if !ok || name == "" || !strings.HasPrefix(m.FSType, "fuse") {
		return ""
	}
	for _, root := range roots {
		if placement.Below(m.Mountpoint, root.Worktree(name)) {
			return name
		}
	}
	if placement.Below(m.Mountpoint, s.run.Agent(name)) {
		return name
	}
	return ""
}

// roots returns the directories of the loaded workspaces by their names.
func (d *Daemon) roots() map[string]layout.Workspace {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make(map[string]layout.Workspace, len(d.workspaces))
	for name, w := range d.workspaces {
		out[name] = w.root
	}
	return out
}
