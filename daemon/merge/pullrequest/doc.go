// Package pullrequest pushes an agent's branch and opens a pull request for it.
//
// It owns the decisions on the way: as whom git pushes, which commits, to which
// remote, and what the request says; and it knows the forges and their own programs (gh,
// glab), which open the pull request, or says where a person can.
//
// Everything runs as the owner of the project, with that person's configuration and
// credentials, never as root, and reads no configuration that an agent can write. What an
// agent has written (commit messages, names of branches) is data: it goes to standard input
// or after a check, never where a program would take it for an option. The package opens no
// connection itself.
//
// It judges the branch with the agent's rules as a merge does, and holds no lock
// while it pushes: a push may take minutes, and what a commit names does not change.
package pullrequest
