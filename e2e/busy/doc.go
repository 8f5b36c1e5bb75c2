// Package main is a program for the end-to-end tests to run in a sandbox: it
// does what a busy agent does (files, a file kept open, new files, git, a
// server, output), all at once, counts its system calls and writes down every
// one that failed or was slow. It knows nothing of polis.
package main
