// Package git runs the git program for polis.
//
// It owns how git is started: as a given user and never as root over data an
// agent wrote, with an environment made here and not inherited, with hooks,
// fsmonitor, lazy fetching, replace refs, prompts and remote helpers off, in a
// process group that is killed when the context ends, and with bounded output.
// Every command runs in a cage (daemon/cage), in which git starts no program,
// writes only the repository and what the command names, and reaches no network;
// Cmd.Own and Cmd.Remote lift it, and a test of e2e/arch lists who may say so.
//
// It knows no agent, no workspace and no policy; it never reads a file of a
// repository itself. Commits move between repositories of different owners as
// a pack through a pipe (Copy), so that neither owner reads the other's files.
//
// The package holds no lock. A Runner and a Repo are plain values and safe for
// concurrent use; git's own lock files order the changes.
package git
