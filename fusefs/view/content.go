package view

import "polis/fusefs"

// onlyContent reports whether an operation that needs an answer changes what is in one file, which keeps its name and gets no
// other: it is written, or a regular file that was written aside takes its place. Everything else, such as a link, a removal
// or a rename to another name, does more than an edit of the file.
func (v *verdicts) onlyContent(op fusefs.Op, targets []fusefs.Target) bool {
	if len(v.asked) != 1 {
		return false
	}
	for _, t := range targets {
		if t.Dir || t.Tree || t.Source || t.Unlinked || t.Whiteout {
			return false
		}
	}
	switch op {
	case fusefs.OpOpenWrite, fusefs.OpCreate, fusefs.OpSetattr, fusefs.OpFallocate, fusefs.OpCopyRange:
		return true
	case fusefs.OpRename:
		return len(targets) == 2 && targets[0].File && targets[1].Path == v.asked[0] && targets[0].Path != targets[1].Path
	}
	return false
}
