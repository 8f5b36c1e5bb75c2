// Package pullrequest pushes an agent's branch and opens a pull request for it.
//
// It owns the decisions on the way: as whom git pushes, which commits, to which
// remote, and what the request says. Package forge knows the forges and their
// tools. It pushes as the owner of the project with that person's credentials, never
// as root, and reads no configuration that an agent can write.
//
// It judges the branch with the agent's rules as a merge does, and holds no lock
// while it pushes: a push may take minutes, and what a commit names does not change.
package pullrequest
