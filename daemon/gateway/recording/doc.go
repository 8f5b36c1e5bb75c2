// Package recording keeps the requests and answers of an agent's tasks, and answers the requests of a
// replay from them.
//
// A recording is one file for each task, root's, mode 0600. It is a line of JSON for each thing that
// happened: a request, the status of its answer, each chunk of the answer as it came, the answer's end.
// A line names its exchange by the place of the request in the file. An exchange without an end was cut.
// What a crash left of the last line is removed when the file is written again, and skipped when it is
// read. A file has at most the bytes that its task may have; its last line is then the reason, and
// nothing more of the task is recorded. No key is recorded: the caller passes on what has none.
//
// A [Player] finds the recorded exchange for a request. The rule is in docs/gateway.md, "Replay"; what
// varies between runs is replaced before texts are compared (normalize.go).
//
// Bodies and answers were written by agents and services: what is read is bounded.
//
// Lock order: Writer.mu and Player.mu are leaves.
package recording
