// Package tracked keeps the set of paths that the target or an agent's branch of a
// workspace tracks, in a file that shims read (package pathset): such a path takes a
// lease, whatever an agent's own index and ignore rules say of it.
//
// A Keeper looks when a branch moved or the agents change (package branches), and at the
// start. It runs git as the workspace's owner, in the cage; it moves no ref,
// takes no lease and writes only its file.
//
// No locks: what is below "the worker's" belongs to the one goroutine that Open starts.
package tracked
