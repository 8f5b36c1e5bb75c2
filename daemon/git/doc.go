// Package git runs the git program for polis.
//
// It owns how git is started. Git runs as a given user, and never as root on data that an agent
// wrote. Its environment is made here and not inherited. Hooks, fsmonitor, lazy fetching, replace
// refs, prompts and remote helpers are off. Its process group is killed when the context ends, and
// its output is bounded. Every command runs in a cage (daemon/host/cage), in which git starts no
// program, writes only the repository and what the command names, and reaches no network. Cmd.Own
// and Cmd.Remote lift the cage; a test of e2e/arch lists the callers that may set them.
//
// It knows no agent, no workspace and no policy, and never reads a file of a repository itself.
// Commits move between repositories of different owners as a pack through a pipe (Copy), so that
// neither owner reads the other's files.
//
// The package holds no lock. A Runner and a Repo are plain values and safe for
// concurrent use; git's own lock files order the changes.
package git
