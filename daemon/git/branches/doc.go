// Package branches reads where the target and the agents' branches of a workspace are,
// once for all that act on it: the conflict watch (package conflictwatch) and the set of
// tracked paths.
//
// A Follower reads when a branch moved, when the agents change, at the start, and when a caller of Now
// wants to know. It runs git as the workspace's owner, in the cage; it moves no ref and knows no path.
// Fingerprint runs no git: it compares what an agent wrote to its refs.
//
// A Watcher reports that branches may have moved, without running git: it has the kernel (inotify)
// watch the directories git renames ref files into. It reports that something may have changed, never
// what, and prefers a superfluous report to a missing one. One goroutine, which Close ends and waits for.
//
// A TrackedKeeper keeps the set of paths that the target or an agent's branch tracks, in a file that
// shims read (package pathset): such a path takes a lease, whatever an agent's own index and ignore
// rules say of it. It looks when a branch moved or the agents change, and at the start; it takes no
// lease and writes only its file. What is below "the worker's" belongs to the one goroutine that Open
// starts.
//
// Lock order: the token of reading, then Follower.mu, which is held for memory only.
package branches
