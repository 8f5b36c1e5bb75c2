// Package counters owns the file with the counters of one agent, from which its next shim continues:
// they only grow, also over a crash of the shim or of polisd (seed 002, Q1).
//
// The file has two slots, which are written in turn. A slot that is torn, because the machine lost
// power, is ignored, and the other one counts. What a shim reports is in the file before: a value
// that was seen is never followed by a smaller one. Only a machine that loses power can lose the last
// half minute, which the kernel had not written to the disk.
//
// The file belongs to root, in the directory of the agent's logs. The package follows no symbolic
// link, and starts no goroutine. Lock order: none; a File belongs to one goroutine at a time.
package counters
