// Package cage starts a program that reads what an agent wrote, so that the
// kernel, and not a command line option, keeps it from running anything else.
//
// It owns how such a program is confined: no_new_privs; Landlock(7), which
// allows execve(2) of the named programs and their loader only, and writing
// below the named directories only; a seccomp(2) filter that refuses child
// processes, sockets, mounts, namespaces, tracing and keys; resource limits.
// The caller's exec.Cmd says who the program runs as.
//
// A git in a cage can be misled about what it prints. It cannot run a filter, a
// hook, an editor, a pager, an alias, a credential helper or ssh, whatever
// configuration, attribute or index it was given: each of these needs fork(2).
// For the few commands that start git themselves (Cage.Programs), the directories
// they may write are mounted noexec in a mount namespace of their own: else the
// dynamic loader, which must be executable, could load a file there.
//
// It never runs a program without the cage: a kernel that lacks a part of it is
// ErrUnavailable. It knows no git, no agent and no workspace, and it removes
// nothing: cage and program end together.
//
// The confinement is put on one operating system thread, which starts the
// program and ends. There is no second exec, so a cage costs about 0.2 ms. The
// package holds no lock.
package cage
