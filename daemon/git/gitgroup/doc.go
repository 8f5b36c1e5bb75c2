// Package gitgroup charges the git commands of polisd to the agents they run for:
// one control group with a memory limit for each agent, so that a merge of two huge
// files ends with an error for the agent that wrote them, and neither polisd nor
// another agent loses memory to it.
//
// It owns those groups: a group is made with the first command and removed when no
// command has run for a while, by Close, or, after a crash, by Sweep of the next
// polisd. It starts no process and knows no repository; package git calls it through
// git.Account.
//
// Where no group can be made, commands run with the limits of each process only
// (git.Cmd.Limits), with one warning in the log.
//
// Lock order: Groups.mu is a leaf. It is held while the kernel makes or removes a
// group, which takes milliseconds.
package gitgroup
