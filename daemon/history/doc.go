// Package history has no code: its folders keep what was, for people to read, to compare and to restore.
//
// Snapshots and their contents, checkpoints of agents, receipts of what agents did and their replay, who wrote a line, what
// a task was, and what agents used. They change no branch; what is restored is restored by their callers.
package history
