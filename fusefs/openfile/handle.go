package openfile

import "polis/fusefs/backing"

// Ticket is what a writable open holds: it is given back at RELEASE.
type Ticket interface{ Done() }

// Handle is one open file. It is inserted into its inode once (Passthrough.Attach,
// Inode.OpenLazy), and its fields do not change afterwards.
type Handle struct {
	FD       int  // -1 for one that reads by its inode's descriptor; see OpenLazy
	Writable bool // opened for writing or truncated by the open
	Mappable bool // opened for reading and writing: mmap(2) allows no shared mapping else
	Made     bool // by this open: the kernel had nothing of it before

	// Guarded by Inode.mu, with the inode's list.
	ticket     Ticket
	names      []nameTicket // of names that the file has got since
	next, prev *Handle
	ended      bool // released: the ticket may be another's
}

// Hold gives the handle the ticket of its open. The handle is known already;
// its requests come later.
func (i *Inode) Hold(h *Handle, tk Ticket) {
	i.mu.Lock()
	defer i.mu.Unlock()
	h.ticket = tk
}

// Lost reports whether the lease the file was opened under, or that of a name that it has got since, is not held any
// more: its ticket has a method Valid, which returns false.
func (i *Inode) Lost(h *Handle) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return h.lost()
}

func invalid(tk Ticket) bool {
	v, ok := tk.(interface{ Valid() bool })
	return ok && !v.Valid()
}

// Close closes the descriptor and gives the tickets back. The handle is in no list.
func (h *Handle) Close() {
	if h.FD >= 0 {
		backing.Close(h.FD)
	}
	if h.ticket != nil {
		h.ticket.Done()
	}
	for _, n := range h.names {
		n.ticket.Done()
	}
}
