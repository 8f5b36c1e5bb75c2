// Package refwatch reports that the branches of a bare repository may have moved, without running
// git: it has the kernel (inotify) watch the directories git renames ref files into.
//
// It reports that something may have changed, never what, and prefers a superfluous report to a
// missing one. It reads no ref, runs no git and knows no agent.
//
// One goroutine per Watcher, which Close ends and waits for. No locks.
package refwatch
