// Package setup owns what the setup command of a project makes ([workspace.setup]): the files that
// every worktree needs before an agent can test, such as node_modules. They are made once, and
// worktrees that share a base tree have them as another lower layer, below the base.
//
// A result is identified by a key, a hash of the command, of the content of its input files and of
// the environment that the command ran in (Key), and a number: <dir>/<key>-<number>. It is a
// directory of tree (the files) and record, which is written last. <id>.new is a run: the base tree
// with an overlay above it (package worktree), a home and a scratch directory. Only root can search
// <dir>. A result never changes; another run with the same key has the next number, and new agents get
// the highest one. The files are synced before the record is written, and the record has a checksum of
// them, which Verify compares.
//
// The command is the repository's code: it runs in a sandbox (package job), as the user the agents run
// as, with a bound of time, memory and disk. After its last process has ended, only what git ignores is
// taken (collect); changes of tracked files are dropped. Nothing here follows a path that the command
// made.
//
// A Worker makes the results of one workspace, one at a time, when the target branch moves and when an
// agent started without. No agent waits for it unless its caller does (Worker.Await). A failed run is
// an event with its log; the same key is tried again after a while, or at `polisctl setup run`. The
// sandbox and the mounts of a run that a crash left are removed before the next one, and by Open.
//
// Lock order: Store.lock, then Worker.mu. Neither is held while a command runs or files are hashed.
package setup
