// Package race runs races: one task, given to several agents that begin at the same commit, and the
// best result of them.
//
// It owns the records of races and the order of their steps. It adds, starts and removes no agent
// itself: Agents does. Each step is recorded before the next one begins, and can be repeated, so that
// a race continues after a crash. Runner.mu is taken last and never held while Agents is called.
package race
