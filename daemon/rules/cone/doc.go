// Package cone owns the directories of a sparse checkout in git's cone mode (git-sparse-checkout(1),
// "INTERNALS - CONE PATTERN SET"): a worktree with a cone has the files at the top, those directly in each
// directory above one of the cone's, and everything below the cone's directories.
//
// It reads the text of info/sparse-checkout, which an agent or the project's owner writes, as data: Parse accepts
// only what git writes in cone mode, within MaxText and MaxDirs. The package is pure: it opens no file, runs no
// git and knows no agent.
package cone
