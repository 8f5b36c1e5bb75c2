package placement

import (
	"fmt"

	"polis/daemon/git/worktree"
	"polis/daemon/store"
)

// IsPlain reports whether a workspace was made of a directory without a repository. It stays a
// plain directory even if a .git appears there later: agents can write in the directory, and a
// .git decides what programs the owner's git runs. Only a user adopts a .git.
func IsPlain(st store.State) bool { return !st.Git && st.Project != "" }

// StaysPlain reports whether a workspace is treated as a plain directory at the next up: it is one,
// and its .git is not adopted, or agents without branches work in it.
func StaysPlain(plain bool, agents int, adopt bool) bool { return plain && (!adopt || agents > 0) }

// PlainWarnings returns the warnings for a workspace that is a plain directory. asUser: the view
// shows the files of root as the agents' own; else uid is whom the agents run as.
func PlainWarnings(info worktree.Info, asUser bool, uid int) (out []string) {
	if info.Git {
		return nil
	}
	switch p := info.ProjectPath; {
	case asUser:
		out = append(out, fmt.Sprintf("%s belongs to root and is not a git repository: agents change its files directly, and files that they create belong to root", p))
	case info.ProjectOwner.UID != uint32(uid):
		out = append(out, fmt.Sprintf("the files in %s belong to root, and this file system cannot show them as another user's; agents run as uid %d and can read but not change them: chown the directory to a user of its own", p, uid))
	}
	if info.BecameGit {
		out = append(out, fmt.Sprintf("%s has become a git repository, and polis still treats it as a plain directory: an agent can have made its .git, which decides what programs git runs as you. If the .git is yours, check .git/config and .git/hooks, remove the agents that were added without branches (their files stay in the project), then run polisctl up --adopt-git", info.ProjectPath))
	}
	return out
}
