// Package ledger keeps what one agent has used of model services: requests, tokens, time and money by
// day, task, service and model. It is in two files of the directory of the agent's log, which no sandbox
// has: a journal with a line for each request, and the sums of the lines before it. A line is in the
// kernel when Add returns, so the counts survive a kill of the shim; a crash of the machine can lose the
// last of them. The shim writes; polisd reads the same files at any time, also when no shim runs.
//
// Lock order: Ledger.mu, then nothing.
package ledger
