package lockd

// Compare reports to a Client whether an operation has left a file as it was. Then the lease ends with its last use, whatever
// its hold: there is nothing that others must not change meanwhile.
type Compare struct {
	// State returns what is at a path, as a comparable value, and false if that is not known. It is called when an
	// operation has taken the lease, before it changes anything, and after the last use, when nothing is Busy. It must
	// not block for long.
	State func(path string) (state any, ok bool)
	// Begins reports whether State is called before an operation that takes a lease, Ends whether after one that was
	// the last to use it: in the middle of a change, what is at the path can be as it was.
	Begins, Ends func(op string) bool
}

// busyCompares is how many times a busy file is checked before it counts as one that is changed: a mapping may write to
// it. The kernel itself has it open for a moment after a close.
const busyCompares = 4

// stateOf is what is known of the state before a lease.
type stateOf uint8

const (
	noState      stateOf = iota
	readsState           // by the first operation
	hasState             // in entry.before
	unknownState         // or another one: the hold applies
)

// use records that a ticket is given on e. Called with c.mu held.
func (e *entry) use() {
	if e.state == readsState || e.used && e.state == noState {
		e.forgetState() // this operation changes it while the first one reads it, or has not yet begun to
	}
	e.used, e.recent = true, true
}

func (e *entry) forgetState() { e.state, e.before = unknownState, nil }

// begin returns the ticket of an operation when the states are known that it is about to change.
func (c *Client) beginUse(t *Ticket, op string) *Ticket {
	if c.Compare == nil {
		return t
	}
	t.ends = c.Compare.Ends(op)
	c.mu.Lock()
	var reads []*entry
	for _, e := range t.entries {
		switch {
		case e.state != noState:
		case !c.Compare.Begins(op) || e.tree || e.mode != Write || e.hold == HoldClose:
			e.forgetState()
		default:
			e.state = readsState
			reads = append(reads, e)
		}
	}
	c.mu.Unlock()
	for _, e := range reads {
		state, ok := c.Compare.State(e.path)
		c.mu.Lock()
		switch {
		case e.state != readsState:
		case ok:
			e.state, e.before = hasState, state
		default:
			e.forgetState()
		}
		c.mu.Unlock()
	}
	return t
}

// same reports whether a file is as it was before its lease. c.mu is not held; the entry is pinned.
func (c *Client) same(e *entry, before any) bool {
	now, ok := c.Compare.State(e.path)
	return ok && now == before
}
