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
// [Rules] decide which operations an agent may request, which of them a person must approve first, and an
// [Operation] in which order one is checked and performed. An approval is for one request: it is the key of the
// question, which contains all refs and commits. A [PushJudge] owns the rule for names of refs (the agent's own
// branch, the branches that the configuration names, and the tags that the agent made) and the comparison of
// each pushed commit with the agent's rules, as before a merge (package gate). These three read no repository
// but by their callers' functions, hold no lock, move no ref and contact no remote: a [Broker] performs what was
// permitted, and nothing else.
package remote
