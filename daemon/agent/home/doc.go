// Package home fills an agent's home directory before the agent starts.
//
// It owns the rules for what an agent gets from the home of the project's owner: which files may
// be read there, which of them are copied, when a copy is refreshed, which are mounted read-only,
// which values in the copies answer the dialogs of the agent's program, and the identity of the
// agent's commits. The caller makes the directories and mounts what Seed returns, and calls
// Refresh before a program of the agent starts, one call at a time for an agent.
//
// The agent's home is hostile: the agent has written it. This package follows no link there that
// leads out of it, reads only regular files that belong to the agent, and bounds what it parses of
// them. It writes nothing into the owner's home. It holds no lock; its state is one file for each
// agent, which lists what was copied.
package home
