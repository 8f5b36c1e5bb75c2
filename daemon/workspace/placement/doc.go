// Package placement decides where a workspace is and whom its agents run as.
//
// It owns the names and directories of workspaces, the paths that are refused for them, the choice
// of uid and gid, when a directory stays one without branches, and when a workspace may be
// forgotten. It reads the file system and the user database, and makes nothing: package daemon does,
// with the answers.
package placement
