// Package main is a program for the end-to-end tests that runs in a sandbox. It does the work of a
// busy agent (files, a file kept open, new files, git, a server, output), all at once. It counts
// its system calls and records every one that failed or was slow. It has no notion of polis.
package main
