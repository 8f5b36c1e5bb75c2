// Package forge takes a branch to where people review it: it pushes a commit
// to a remote, and opens the pull request with the forge's own program (gh,
// glab) or says where a person can.
//
// Everything runs as the person whose repository it is, with that person's
// configuration and credentials, and never as root. What an agent has written
// (commit messages, names of branches) is data: it goes to standard input or
// after a check, never where a program would take it for an option. The
// package opens no connection itself, knows no agent and holds no lock.
package forge
