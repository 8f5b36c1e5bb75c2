package view

import (
	"strings"

	"polis/fusefs"
)

// tooLong returns the length of the path that an operation would make if it exceeds MaxPath, else
// 0. An existing longer path, in a directory that was moved, may be changed and removed: every
// tree must be removable.
func tooLong(op fusefs.Op, targets []fusefs.Target) int {
	made := targets[:0]
	switch op {
	case fusefs.OpCreate, fusefs.OpMknod, fusefs.OpMkdir, fusefs.OpSymlink, fusefs.OpLink:
		made = targets[:1]
	case fusefs.OpRename:
		made = targets[1:]
	}
	for _, t := range made {
		if len(t.Path) > MaxPath {
			return len(t.Path)
		}
	}
	return 0
}

// leasable returns path, or if path is too long for a lease, the nearest directory above it that
// is not. The lease then covers its whole tree.
func leasable(path string) (_ string, above bool) {
	if len(path) <= MaxPath {
		return path, false
	}
	return path[:strings.LastIndexByte(path[:MaxPath+1], '/')], true // a component has at most 255 bytes
}
