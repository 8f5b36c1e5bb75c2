// Package refwatch tells when the branches of a bare repository may have
// moved, whoever moved them, without asking git: it has the kernel (inotify)
// watch the directories git renames ref files into.
//
// It says "look again", never what moved, and errs on the side of saying it
// once too often. It reads no ref, runs no git and knows no agent.
//
// One goroutine per Watcher, which Close ends and waits for. No locks.
package refwatch
