// Package branches reads where the target and the agents' branches of a workspace are,
// once for all that act on it: the conflict watch (package conflictwatch) and the set of
// tracked paths (package tracked).
//
// A Follower reads when a branch moved (package refwatch), when the agents change, at the
// start, and when a caller of Now wants to know. It runs git as the workspace's owner, in
// the cage; it moves no ref and knows no path. Fingerprint runs no git: it compares what an agent
// wrote to its refs.
//
// Lock order: the token of reading, then Follower.mu, which is held for memory only.
package branches
