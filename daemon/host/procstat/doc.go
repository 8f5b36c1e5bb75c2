// Package procstat reads from /proc what the processes of a sandbox do: whether one is stopped,
// how many bytes they read and wrote, and what the network of the sandbox carries. It also reads
// what one process uses, and the memory, process IDs and free space of the machine.
//
// It knows process IDs and no agent, and decides nothing: package patrol judges the numbers. It
// keeps no state. The text that it reads is bounded.
package procstat
