// Package keylock has locks that are named by strings, such as one for each worktree or base tree.
//
// It owns the set of names that are locked, in memory. It never decides what a name stands for, and
// keeps nothing of a name that nobody locks.
package keylock
