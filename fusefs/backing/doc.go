// Package backing does the input and output of a view below its gate: it opens, stats,
// lists, copies and changes objects of the backing directories.
//
// It owns no state. Every object is named by the descriptor of its directory and one
// component, and no symbolic link is followed; a path is made for a descriptor
// only (ProcPath). Errors are errnos, as the caller of the view sees them.
//
// It never decides whether something may be done, and it knows no inode of the
// kernel: the caller compares what was opened with what was meant.
package backing
