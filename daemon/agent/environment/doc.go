// Package environment decides what an agent starts with: the spec that its shim reads.
//
// It owns the translation of the configuration, the base type and the agent's own settings into
// limits, mounts, environment variables, reachable addresses and the git configuration of the
// worktree. It makes the directories that the sandbox needs, and has package home fill the home.
// It starts nothing and changes nothing in the kernel: package daemon passes the spec to a shim,
// and the shim applies it.
//
// A setting that cannot be read grants nothing. The package holds no lock.
package environment
