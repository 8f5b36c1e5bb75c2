package upper

import "polis/fusefs"

// Changing implements fusefs.Recorder: what is recorded is what the request means for the merged tree.
func (g *Guard) Changing(op fusefs.Op, targets []fusefs.Target) fusefs.Recorded {
	if g.recorder == nil {
		return fusefs.Recorded{}
	}
	about, names, errno := g.meaning(op, targets)
	if errno != 0 || about == nothing {
		return fusefs.Recorded{}
	}
	return g.recorder.Changing(about, names)
}

// Changed implements fusefs.Recorder.
func (g *Guard) Changed(r fusefs.Recorded) {
	if g.recorder != nil {
		g.recorder.Changed(r)
	}
}
