// Package daemonlock makes sure that a directory has one daemon: a lock file (flock(2)) whose content
// names its owner, for the error message of a second one. It owns the lock file and nothing else
// of the directory; it never removes a file that another process has locked. The lock ends with
// the process, so a crash leaves none.
//
// A [Claimer] decides which directories a daemon may take: a workspace is refused while shims of an
// earlier daemon with another run directory serve it. It starts and ends no shim.
package daemonlock
