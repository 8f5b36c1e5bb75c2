// Package remote speaks to the remote repositories of a project for agents.
//
// It owns what is said to them: the addresses come from the project's own
// configuration and never from an agent, git runs on the host as the workspace's
// owner, and credentials are asked of the helpers of the project's owner. They
// go to the host they are for and to nobody else; neither an agent nor an answer
// to it sees them.
//
// What is fetched lands under refs/polis/remotes of the internal repository, which nobody else touches, so
// that no lock is held while the network is waited for. The agent's own git then
// writes refs/remotes, and takes the locks of those refs in its view. One
// operation at a time in a workspace.
//
// It does not decide who may do what: its caller does.
package remote
