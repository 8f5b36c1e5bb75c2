// Package remote speaks to the remote repositories of a project for agents.
//
// It owns every request to them: the addresses come from the project's own
// configuration and never from an agent, git runs on the host as the workspace's
// owner, and credentials come from the helpers of the project's owner. They go
// only to the host they are for; neither an agent nor an answer to it contains them.
//
// Fetched refs are kept under refs/polis/remotes of the internal repository, which
// only this package changes, so that no lock is held during a transfer. The agent's own git then
// writes refs/remotes, and takes the locks of those refs in its view. One
// operation at a time in a workspace.
//
// It makes no policy decision: its caller does.
package remote
