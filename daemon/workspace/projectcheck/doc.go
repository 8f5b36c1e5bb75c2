// Package projectcheck describes a project for its owner: its layout, what the owner's git does there that the git of agents
// does not, and what leads out of the sandboxes, each with whether it works, what it costs, the words and the command of the
// remedy. What other packages found (hooks, submodules, links) is given to it; it reads the owner's configuration of git as
// data, as the owner, with the bounds of package worktree. It changes nothing, and starts nothing that is configured.
//
// Each fact in which the owner's git and that of agents can differ has one row, by name: a test compares both over generated
// configurations (properties_test.go).
package projectcheck
