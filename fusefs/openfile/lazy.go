package openfile

import "polis/fusefs/backing"

// A lazy handle is an open file without a descriptor. Where the view is the
// only way to a file, and the file was opened once and found readable since
// anything could have changed that, opening it for reading does not read the
// disk: its pages are in the kernel, or a later request for one opens the file. Changes in
// between are handled where they happen: a name that goes takes a descriptor first (Pin), a name that moves takes the
// node with it.

// OpenLazy inserts a handle without a descriptor; false means that the file must be
// opened. prefill is called, with the inode locked, when the kernel has none of the
// pages: a program that opens the file for writing comes before or after.
func (i *Inode) OpenLazy(h *Handle, prefill func(size uint32)) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	opened := i.use != nil && i.use.open != nil
	if !i.current || i.size == notSmall || opened && i.mode != cached {
		return false
	}
	if !opened && !i.pushed {
		i.pushed = true // or not worth another try
		prefill(i.size)
	}
	i.mode = cached
	i.insert(h)
	return true
}

// ReadFD returns the descriptor a handle reads by, if there is one yet. It is good
// until the handle is released.
func (i *Inode) ReadFD(h *Handle) (fd int, ok bool) {
	if h.FD >= 0 {
		return h.FD, true
	}
	i.mu.Lock()
	if i.use != nil {
		fd = int(i.use.data)
	}
	i.mu.Unlock()
	return fd, fd > 0
}

// SetReadFD gives lazy handles the descriptor by which they read, and returns the
// one that they do: another request may have been faster.
func (i *Inode) SetReadFD(fd int) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.pushed = false // the kernel had to ask: it has let go of pages
	u := i.change()  // the handle that reads is in it
	if u.data > 0 {
		backing.Close(fd)
		return int(u.data)
	}
	u.data = int32(fd)
	return fd
}
