package fusefs

// Recorder is a Guard that keeps which names change (package changed). It is called for everything that
// Write allowed, twice: right before the change, when nothing holds it back any more, and after it. A
// reader of the record that comes between the two therefore finds the name now or the next time.
type Recorder interface {
	// Changing is called before the change. It must not block.
	Changing(op Op, targets []Target) Recorded
	// Changed is called after it, also if it failed.
	Changed(r Recorded)
}

// Recorded is a change that a Recorder knows of.
type Recorded struct {
	// Op and Targets are what changes in the tree that agents see; no Op: nothing.
	Op      Op
	Targets []Target
	// Cut is the recorder's own.
	Cut uint64
}
