// Package relisten keeps a listening unix socket reachable at its path while other programs remove it, move it,
// put another file there, or remove its directory.
//
// It owns the sockets of one path: the first one and those that it has made since. All are accepted from, so a
// socket that was moved away and back, or that is mounted elsewhere, still works. A new socket has the owner, the group,
// the mode and the access control list that the last one had; it is bound under another name, that only root can use, and
// gets its own name when all of these are set. Everything happens below the descriptor of the directory. Only a directory
// that is gone is looked up by its path again, and no component of it may be a link or belong to another user.
//
// It never removes a directory, and never decides what a caller may do. Lock order: Keeper.mu before Listener.mu.
package relisten
