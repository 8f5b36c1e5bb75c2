package daemon

import (
	"fmt"

	"polis/daemon/store"
	"polis/daemon/worktree"
	"polis/fusefs/idmap"
)

// rootsTree reports whether the project is a plain directory of root's that agents can see as
// their own. Agents never run as root. They work in such a project itself, so the files that they
// create there must belong to root like the others.
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

// isPlain reports whether a workspace was made of a directory without a repository. It stays a
// plain directory even if a .git appears there later: agents can write in the directory, and a
// .git decides what programs the owner's git runs. Only a user adopts a .git.
func isPlain(st store.State) bool { return !st.Git && st.Project != "" }

// staysPlain reports whether the workspace is treated as a plain directory: it was one, and its
// .git is not adopted, or agents without branches work in it. st is the saved state of a workspace
// that is not loaded.
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

// plainWarnings returns the warnings for a workspace that is a plain directory.
func plainWarnings(w *workspace, info worktree.Info) (out []string) {
	if info.Git {
		return nil
	}
	switch p := info.ProjectPath; {
	case w.agents.AsUser:
		out = append(out, fmt.Sprintf("%s belongs to root and is not a git repository: agents change its files directly, and files that they create belong to root", p))
	case info.ProjectOwner.UID != uint32(w.agents.UID):
		out = append(out, fmt.Sprintf("the files in %s belong to root, and this file system cannot show them as another user's; agents run as uid %d and can read but not change them: chown the directory to a user of its own", p, w.agents.UID))
	}
	if info.BecameGit {
		out = append(out, fmt.Sprintf("%s has become a git repository, and polis still treats it as a plain directory: an agent can have made its .git, which decides what programs git runs as you. If the .git is yours, check .git/config and .git/hooks, remove the agents that were added without branches (their files stay in the project), then run polisctl up --adopt-git", info.ProjectPath))
	}
	return out
}
