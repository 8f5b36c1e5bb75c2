// Package private makes the directories of what polis stores of projects, and closes those that exist.
//
// It owns who can reach what polis stores: a workspace's .polis is closed by For to everybody but root and the user
// whose project it is, so nothing below it is reachable by its name for another user of the machine, whatever the
// modes below are. Modes do not depend on the umask, and a mode that is wider than it is to be (an earlier version
// made it, or a backup restored it) is corrected when the directory is used. Only the named directory is changed:
// no tree is walked.
//
// It follows no symbolic link in the last component of a path. It never removes, and never makes the owner of a
// project the owner of a directory that root fills: see Owned for those that are the owner's.
package private
