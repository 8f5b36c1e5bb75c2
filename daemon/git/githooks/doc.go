// Package githooks finds the git hooks of a project (githooks(5)) and reads their files for agents.
//
// It owns where the git of the project's owner finds its hooks (Settings, Find), what of them an agent gets (Files), and
// the sentences that report what does not run (Notice, SignNotice). The configuration of the owner is read as data, by a
// git in its cage. The files of the project are opened with the rights of its owner, never through a symbolic link that
// another user or an agent can change: the owner can exchange all of them, and agents' branches are merged into its tree.
//
// It runs no hook. A hook runs in a sandbox, with the rights of the agent.
package githooks
