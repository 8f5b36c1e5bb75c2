// Package fdtree walks, copies and deletes directory trees by descriptors. It owns nothing and knows
// system calls for files only, so every package may use it.
//
// It never follows a symbolic link, never triggers an automount and never crosses a mount point:
// the files of a file system that is mounted below a tree, such as a view, stay. Names need not
// be UTF-8, and paths may be longer than PATH_MAX.
package fdtree
