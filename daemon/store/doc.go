// Package store keeps what neither the kernel nor git records: one atomic
// JSON file per workspace (version 2, seed 000 "state.json Schema") and the
// list of workspaces. A file is replaced by temp, fsync, rename, fsync of the directory;
// a corrupt one is renamed, never overwritten. It decides what replaces the content of a corrupt
// file, and nothing about agents.
package store
