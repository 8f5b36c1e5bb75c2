package daemon

import (
	"fmt"

	"polis/daemon/store"
	"polis/daemon/worktree"
	"polis/fusefs/idmap"
)

// rootsTree says whether the project is a plain directory of root's that agents
// can be shown as their own. Agents are never root; they work in such a project
// itself, so what they make there has to be root's like the rest of it.
func (d *Daemon) rootsTree(info worktree.Info, uid, gid int) bool {
	if info.Git || info.ProjectOwner.UID != 0 {
		return false
	}
	tree, err := idmap.Open(info.ProjectPath, uint32(uid), uint32(gid))
	if err != nil {
		d.Log.Warn("agents can read but not change the project", "path", info.ProjectPath, "err", err)
		return false
	}
	if err := tree.Close(); err != nil {
		d.Log.Warn("close the project", "path", info.ProjectPath, "err", err)
	}
	return true
}

// plainWithAgents says that agents work in a plain directory: they have no
// branches, and get none when somebody makes it a repository.
func plainWithAgents(st store.State) bool {
	return !st.Git && st.Project != "" && len(st.Agents) > 0
}

// staysPlain is plainWithAgents for a workspace that is entered.
func (d *Daemon) staysPlain(name string) bool {
	d.mu.Lock()
	w, ok := d.workspaces[name]
	git := ok && w.state.Git
	d.mu.Unlock()
	if !ok || git {
		return false
	}
	for _, v := range d.agents.Workspaces() {
		if v.Name == name {
			return v.Agents > 0
		}
	}
	return false
}

// plainWarnings are what somebody should know who puts a plain directory under polis.
func plainWarnings(w *workspace, info worktree.Info) (out []string) {
	if info.Git {
		return nil
	}
	switch p := info.ProjectPath; {
	case w.agents.AsUser:
		out = append(out, fmt.Sprintf("%s is root's and no git repository: agents change its files directly, and what they make there is root's", p))
	case info.ProjectOwner.UID != uint32(w.agents.UID):
		out = append(out, fmt.Sprintf("the files in %s belong to root, and this file system cannot show them as another user's; agents run as uid %d and can read but not change them: chown the directory to a user of its own", p, w.agents.UID))
	}
	if info.BecameGit {
		out = append(out, fmt.Sprintf("%s is a git repository now, but its agents were added without branches and go on so: remove them (their files stay in the project), then polisctl up again", info.ProjectPath))
	}
	return out
}
