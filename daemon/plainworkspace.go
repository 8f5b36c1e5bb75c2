package daemon

import (
	"polis/daemon/git/worktree"
	"polis/daemon/store"
	"polis/daemon/workspace/placement"
	"polis/fusefs/idmap"
)

// rootsTree reports whether the project is a plain directory of root's that agents can see as
// their own. Agents never run as root. They work in such a project itself, so the files that they
// create there must belong to root like the others.
func (d *Daemon) rootsTree(info worktree.Info, uid, gid int) bool {
	if info.Git || info.ProjectOwner.UID != 0 {
		return false
	}
	dir, err := info.Record.OpenDir()
	if err != nil {
		d.Log.Error("agents can read but not change the project", "path", info.ProjectPath, "err", err)
		return false
	}
	defer dir.Close()
	tree, err := idmap.Open(dir, uint32(uid), uint32(gid))
	if err != nil {
		d.Log.Warn("agents can read but not change the project", "path", info.ProjectPath, "err", err)
		return false
	}
	if err := tree.Close(); err != nil {
		d.Log.Warn("project not closed", "path", info.ProjectPath, "err", err)
	}
	return true
}

// staysPlain reports whether the workspace is treated as a plain directory. st is the saved state
// of a workspace that is not loaded.
func (d *Daemon) staysPlain(name string, st store.State, adopt bool) bool {
	d.mu.Lock()
	w, loaded := d.workspaces[name]
	plain, agents := placement.IsPlain(st), len(st.Agents)
	if loaded {
		plain = !w.state.Git
	}
	d.mu.Unlock()
	if loaded {
		agents = 0
		for _, v := range d.agents.Workspaces() {
			if v.Name == name {
				agents = v.Agents
			}
		}
	}
	return placement.StaysPlain(plain, agents, adopt)
}
