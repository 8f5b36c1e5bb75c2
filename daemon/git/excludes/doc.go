// Package excludes owns one part of the file info/exclude of a git directory: the
// patterns by which the git of the project's owner ignores files. Its user, an agent or
// the owner of the workspace, owns the rest of the file, and can exchange everything in the
// directory.
//
// It never reads or writes outside of that directory, and knows no agent and no
// project. A caller that writes to a directory from several goroutines serialises them. It
// holds no lock.
package excludes
