package daemon

import (
	"fmt"

	"polis/daemon/store"
	"polis/daemon/worktree"
	"polis/fusefs/idmap"
)

// rootsTree reports whether the project is a plain directory of root's that agents can be shown
// as their own. Agents are never root; they work in such a project itself, so what they create
// there has to be root's like the rest of it.
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
		d.Log.Warn("project not closed", "path", info.ProjectPath, "err", err)
	}
	return true
}

// isPlain says that a workspace was made of a directory that is no repository.
// It stays that, whatever .git is there later: agents could write in the directory,
// and a .git says what the owner's git runs. Only a person adopts one.
func isPlain(st store.State) bool { return !st.Git && st.Project != "" }

// staysPlain reports whether the workspace is to be treated as a plain directory: it was one, and
// its .git is not adopted, or agents without branches work in it. st is its state if it is not
// loaded.
func (d *Daemon) staysPlain(name string, st store.State, adopt bool) bool {
	d.mu.Lock()
	w, loaded := d.workspaces[name]
	if loaded {
		st.Git = w.state.Git
	}
	d.mu.Unlock()
	if !loaded {
		return isPlain(st) && (!adopt || len(st.Agents) > 0)
	}
	if st.Git {
		return false
	}
	for _, v := range d.agents.Workspaces() {
		if v.Name == name {
			return !adopt || v.Agents > 0
		}
	}
	return !adopt
}

// plainWarnings are the warnings for a plain directory as a workspace.
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
		out = append(out, fmt.Sprintf("%s is a git repository now, and goes on as a plain directory: an agent may have made its .git, which says what programs git runs as you. If it is yours, look at .git/config and .git/hooks, remove the agents that were added without branches (their files stay in the project), then polisctl up --adopt-git", info.ProjectPath))
	}
	return out
}
