// Package pinned opens the directory of a project by its recorded identity.
//
// It owns the record that polisd makes of a project's directory when a workspace is made: its path without symbolic
// links, its owner, its device and inode, its file handle, and its .git. The owner of a project can rename its
// directory, and a directory above it that is the owner's, at any time. So a path that was checked leads elsewhere a
// moment later. Open walks from the root directory, one descriptor at a time: no component is a symbolic link, each
// belongs to root or to the recorded owner, and the last one is the recorded directory. The caller uses the
// descriptor, and never the path.
//
// It reads the file system and changes nothing. It starts no program, and holds no lock. It knows no workspace:
// the caller stores the record, and decides who may replace it.
package pinned
