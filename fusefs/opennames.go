package fusefs

import (
	"sync/atomic"

	"polis/fusefs/inode"
	"polis/fusefs/openfile"
)

// changed is called when a mutation has succeeded, under the name lock. It returns what is the caller's of the ticket.
func (fs *FS) changed(m *mutation, targets []Target, tk Ticket) Ticket {
	fs.noteMade(m.op, targets)
	if t, ok := tk.(Temporary); ok {
		t.Settled()
	}
	if m.done != nil {
		m.done(targets)
	}
	return m.names.share(tk)
}

// openNames has the names that a mutation gives to files and takes from them. A program that has such a file open for
// writing changes what has the new name from then on, so its open files keep the ticket of the mutation, and with it
// the lease of the name: until they are closed, or the file loses the name. A nil openNames is of a mutation that
// changes no name of a file that exists.
type openNames struct {
	given []givenName
	over  []openfile.Ticket
}

type givenName struct {
	node *inode.Node
	path string
}

// got records that a file gets a name. n may be nil. The name lock is held, as for lost and share.
func (o *openNames) got(n *inode.Node, path string) {
	if n != nil && n.IsRegular() {
		o.given = append(o.given, givenName{n, path})
	}
}

// lost gives back what open files keep for a name that the file had. n may be nil.
func (o *openNames) lost(n *inode.Node, path string) {
	if n != nil && n.IsRegular() {
		o.over = append(o.over, n.Files.DropName(path)...)
	}
}

// share gives open files the ticket of the mutation, which has succeeded. It returns the caller's part of the ticket.
func (o *openNames) share(tk Ticket) Ticket {
	if o == nil {
		return tk
	}
	if _, can := tk.(Validator); !can { // there is no lease to lose
		return tk
	}
	s := &sharedTicket{Ticket: tk}
	s.uses.Store(1)
	for _, g := range o.given {
		o.over = append(o.over, g.node.Files.AddName(g.path, s.another)...)
	}
	if s.uses.Load() == 1 {
		return tk
	}
	return s
}

// end gives back the tickets that are over. The name lock is not held.
func (o *openNames) end() {
	if o == nil {
		return
	}
	for _, tk := range o.over {
		tk.Done()
	}
	o.given, o.over = nil, nil
}

// sharedTicket is a ticket of several users. It is done when all are.
type sharedTicket struct {
	Ticket
	uses atomic.Int64
}

// another returns the ticket for one more user.
func (s *sharedTicket) another() openfile.Ticket {
	s.uses.Add(1)
	return s
}

// Valid implements Validator.
func (s *sharedTicket) Valid() bool {
	v, ok := s.Ticket.(Validator)
	return !ok || v.Valid()
}

// Done implements Ticket.
func (s *sharedTicket) Done() {
	if s.uses.Add(-1) == 0 {
		s.Ticket.Done()
	}
}
