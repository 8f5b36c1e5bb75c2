// Package nested reads git repositories that an agent keeps inside its worktree: those of submodules, and
// others.
//
// It owns what their files say: which commits their refs name, where the repository of a directory is, and
// which repositories are below the directory "modules" of a git directory. Everything that it reads was written
// by an agent, so it reads the files as data, below descriptors, without following a symbolic link, and within
// bounds. A repository that it cannot read is an error, which the caller must treat as work.
//
// It runs no git, changes nothing, holds no lock, and knows no agent and no workspace.
package nested
