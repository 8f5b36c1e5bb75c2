package upper

import (
	"syscall"

	"polis/fusefs"
)

// nothing is what a request means that changes nothing in the merged tree.
const nothing fusefs.Op = ""

// meaning translates a request to the operation on the merged tree that it stands for. The requests
// are those of fs/overlayfs in Linux: copy_up.c and dir.c.
func (g *Guard) meaning(op fusefs.Op, targets []fusefs.Target) (fusefs.Op, []fusefs.Target, syscall.Errno) {
	in := 0
	for _, t := range targets {
		if fusefs.InWork(t.Path) {
			in++
		}
	}
	switch {
	case in == 0:
		return inTree(op, targets)
	case in == len(targets) && op == fusefs.OpTmpfile: // a copy begins: is there room?
		return op, []fusefs.Target{{Dir: true, Source: true}}, 0
	case in == len(targets):
		return nothing, nil, 0
	case fusefs.InWork(targets[0].Path) && len(targets) == 2 && op == fusefs.OpRename:
		return g.placed(targets[0], targets[1])
	case fusefs.InWork(targets[0].Path) && len(targets) == 2 && op == fusefs.OpExchange:
		return exchanged(targets[0], targets[1])
	case op == fusefs.OpRename, op == fusefs.OpExchange:
		return nothing, nil, syscall.EPERM
	case op == fusefs.OpLink && fusefs.InWork(targets[0].Path): // a link is made, and then takes a removed name: see placed
		return op, inTheTree(targets[1:]), 0
	case op == fusefs.OpLink && in == len(targets)-1: // a copy without a name gets its name
		return fusefs.OpOpenWrite, targets[:1], 0
	}
	return op, inTheTree(targets), 0 // such a link, until it is moved, is another name of what changes
}

// inTheTree returns the targets that are not in the work directory.
func inTheTree(targets []fusefs.Target) []fusefs.Target {
	out := make([]fusefs.Target, 0, len(targets))
	for _, t := range targets {
		if !fusefs.InWork(t.Path) {
			out = append(out, t)
		}
	}
	return out
}

// inTree is meaning for a request that leaves the work directory as it is.
func inTree(op fusefs.Op, targets []fusefs.Target) (fusefs.Op, []fusefs.Target, syscall.Errno) {
	white := 0
	for _, t := range targets {
		if t.Whiteout {
			white++
		}
	}
	switch {
	case white == 0:
		return op, targets, 0
	case op == fusefs.OpUnlink: // what it hid is shown by an earlier request, or is gone
		return nothing, nil, 0
	case op == fusefs.OpExchange && white == 1: // a directory moves to where something was removed
		from, to := targets[0], targets[1]
		if from.Whiteout {
			from, to = to, from
		}
		return fusefs.OpRename, []fusefs.Target{
			{Path: from.Path, Dir: from.Dir, Tree: from.Dir},
			{Path: to.Path, Dir: from.Dir, Tree: from.Dir},
		}, 0
	}
	return nothing, nil, syscall.EPERM
}

// placed is meaning for the move of made, an object of the work directory, to a name.
func (g *Guard) placed(made, name fusefs.Target) (fusefs.Op, []fusefs.Target, syscall.Errno) {
	at := fusefs.Target{Path: name.Path}
	switch {
	case made.Whiteout:
		dir, err := g.tree.IsDir(name.Path)
		if err != nil {
			return nothing, nil, syscall.EIO
		}
		if at.Dir = dir; dir {
			return fusefs.OpRmdir, []fusefs.Target{at}, 0
		}
		return fusefs.OpUnlink, []fusefs.Target{at}, 0
	case made.Dir && g.copied(made.Path):
		return nothing, nil, 0
	case made.Dir:
		at.Dir = true
		return fusefs.OpMkdir, []fusefs.Target{at}, 0
	case g.copied(made.Path):
		return fusefs.OpOpenWrite, []fusefs.Target{at}, 0
	}
	return fusefs.OpCreate, []fusefs.Target{at}, 0
}

// exchanged is meaning for the exchange of made, an object of the work directory, with a name.
func exchanged(made, name fusefs.Target) (fusefs.Op, []fusefs.Target, syscall.Errno) {
	at := fusefs.Target{Path: name.Path}
	switch {
	case made.Whiteout && name.Dir, made.Dir && name.Dir: // an empty directory is emptied of whiteouts before it is removed or replaced
		at.Dir = true
		return fusefs.OpRmdir, []fusefs.Target{at}, 0
	case made.Whiteout && !name.Whiteout:
		return fusefs.OpUnlink, []fusefs.Target{at}, 0
	case made.Dir && name.Whiteout:
		at.Dir = true
		return fusefs.OpMkdir, []fusefs.Target{at}, 0
	case !made.Whiteout && !made.Dir && name.Whiteout:
		return fusefs.OpCreate, []fusefs.Target{at}, 0
	}
	return nothing, nil, syscall.EPERM
}
