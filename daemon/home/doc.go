// Package home fills an agent's home directory before the agent starts.
//
// It owns the rules for what an agent gets from the home of the project's owner: which files may
// be read there, which of them are copied and which are mounted read-only, and the identity of
// the agent's commits. The caller makes the directories and mounts what Seed returns.
//
// The agent's home is hostile: the agent has written it. This package follows no link there that
// leads out of it, and never reads what the agent wrote. It holds no lock and no state.
package home
