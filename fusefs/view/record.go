package view

import "polis/fusefs"

// Changing implements fusefs.Recorder.
func (g *Guard) Changing(op fusefs.Op, targets []fusefs.Target) fusefs.Recorded {
	if g.cfg.Changes == nil || op == fusefs.OpTmpfile { // without a name it is in no tree
		return fusefs.Recorded{}
	}
	r := fusefs.Recorded{Op: op, Targets: targets}
	for _, t := range targets {
		if !g.inStore(t.Path) && !t.Unlinked {
			r.Cut = g.cfg.Changes.Add(t.Path, wholeTree(op, t))
		}
	}
	return r
}

// Changed implements fusefs.Recorder.
func (g *Guard) Changed(r fusefs.Recorded) {
	if r.Op == "" {
		return
	}
	for _, t := range r.Targets {
		if !g.inStore(t.Path) && !t.Unlinked {
			g.cfg.Changes.Again(t.Path, wholeTree(r.Op, t), r.Cut)
		}
	}
}

// wholeTree reports whether everything below a target changes with it: all that a new directory will
// have is new.
func wholeTree(op fusefs.Op, t fusefs.Target) bool { return t.Tree || op == fusefs.OpMkdir }
