// Package host has no code: each of its folders is one fact, mechanism or process of this machine: who is at the other
// end of a socket, what a process is, a program that is started in a cage, a directory that only root reads.
//
// They know no agent and no git.
package host
