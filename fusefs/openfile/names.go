package openfile

import "slices"

// nameTicket is the ticket of a name that a file has got while it was open for writing.
type nameTicket struct {
	path   string
	ticket Ticket
}

// AddName gives the writable opens of an inode, whose file has got a name, one ticket each: what is written by them
// changes the file of that name. The result are the tickets that are replaced. The caller gives them back.
func (i *Inode) AddName(path string, ticket func() Ticket) (over []Ticket) {
	i.mu.Lock()
	defer i.mu.Unlock()
	over = i.dropName(path)
	i.eachWriter(func(h *Handle) { h.names = append(h.names, nameTicket{path, ticket()}) })
	return over
}

// DropName returns the tickets that the opens have for a name which the file has no more. The caller gives them back.
func (i *Inode) DropName(path string) (over []Ticket) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.dropName(path)
}

func (i *Inode) dropName(path string) (over []Ticket) {
	i.eachWriter(func(h *Handle) {
		h.names = slices.DeleteFunc(h.names, func(n nameTicket) bool {
			if n.path == path {
				over = append(over, n.ticket)
			}
			return n.path == path
		})
	})
	return over
}

// eachWriter calls f with each writable open. mu is held.
func (i *Inode) eachWriter(f func(*Handle)) {
	if i.use == nil || i.use.writers == 0 {
		return
	}
	for h := i.use.open; h != nil; h = h.next {
		if h.Writable {
			f(h)
		}
	}
}

// lost reports whether a lease of the open file is not held any more. Inode.mu is held.
func (h *Handle) lost() bool {
	return invalid(h.ticket) || slices.ContainsFunc(h.names, func(n nameTicket) bool { return invalid(n.ticket) })
}
