package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"

	"polis/cgroup"
	"polis/daemon/agent"
	"polis/daemon/api/wire"
	"polis/daemon/host/launcher"
	"polis/daemon/host/private"
	"polis/daemon/store"
	"polis/fusefs/fdtree"
)

// errNothingLeft reports that a shim without a spec has left nothing behind.
var errNothingLeft = errors.New("the shim has left nothing")

// agentNamed returns an agent of which only the name is known.
func agentNamed(name string) *agent.Agent {
	return &agent.Agent{WS: &agent.Workspace{}, Kept: store.Agent{Name: name}}
}

// ClearDead clears up after a shim that is gone. A shim that answers is alive, regardless of who
// started it.
func (s *Shims) ClearDead(ctx context.Context, name string) error {
	alive, err := s.launcher.Alive(ctx, name, s.Run.Agent(name))
	if err != nil || alive {
		return err
	}
	sh := s.Dial(name)
	defer sh.Close()
	if _, err := sh.Status(ctx); err == nil {
		return fmt.Errorf("the shim of agent %s lives, but its launcher does not know it", name)
	}
	return s.Clear(ctx, name)
}

// Clear removes what the dead shim of an agent has left of which only the name is known.
func (s *Shims) Clear(ctx context.Context, name string) error { return s.clear(ctx, agentNamed(name)) }

// clear removes what a dead shim has left, its directory last. If the spec is missing, clear
// writes one, with which the remains are found by name.
func (s *Shims) clear(ctx context.Context, a *agent.Agent) error {
	dir := s.Run.Agent(a.Name())
	if _, ok := s.Spec(a.Name()); !ok {
		if err := s.recreateSpec(a, dir); errors.Is(err, errNothingLeft) {
			return nil
		} else if err != nil {
			return err
		}
	}
	if err := s.cleanup(ctx, a.Name()); err != nil {
		return err
	}
	if left, err := s.mounts(a.Name()); err != nil || len(left) > 0 {
		return errors.Join(err, fmt.Errorf("views of agent %s are still mounted at %q; nothing below was deleted", a.Name(), left))
	}
	return fdtree.RemoveAll(ctx, dir)
}

// cleanup runs the shim program, which removes mounts, sandbox and control group by name. Only
// that program links libcontainer.
func (s *Shims) cleanup(ctx context.Context, name string) error {
	if err := launcher.Cleanup(ctx, s.program, s.Run.AgentSpec(name)); err != nil {
		return fmt.Errorf("clear up after the shim of agent %s: %w", name, err)
	}
	return nil
}

// recreateSpec writes the spec of an agent whose shim has lost its own. With the spec the shim program
// can remove what the shim left: mounts, the control group and processes. It returns
// errNothingLeft if none exists.
func (s *Shims) recreateSpec(a *agent.Agent, dir string) error {
	mounts, err := s.mounts(a.Name())
	if err != nil {
		return err
	}
	group, delegated := s.CgroupPath(a.Name())
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
	s.Log.Warn("shim has no spec; its mounts and control group are removed by name", "agent", a.Name(), "mounts", mounts, "cgroup", left)
	return store.WriteSummed(s.Run.AgentSpec(a.Name()), spec)
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
