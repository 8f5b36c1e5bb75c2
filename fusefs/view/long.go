package view

import (
	"strings"

	"polis/fusefs"
)

// tooLong returns the length of the path that an operation would make, if it
// is over MaxPath, else 0. What is there already (a directory that moved has
// taken it along) may be changed and removed: there must be no tree that
// cannot be taken down.
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

// leasable is path, or if that is longer than a lease may be, the nearest
// directory above it that is not: its whole tree is leased then.
func leasable(path string) (_ string, above bool) {
	if len(path) <= MaxPath {
		return path, false
	}
	return path[:strings.LastIndexByte(path[:MaxPath+1], '/')], true // a component has at most 255 bytes
}
