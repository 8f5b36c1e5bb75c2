package gitdir

import "polis/fusefs"

// ticket is what one permitted operation holds: a write handle until it is closed, or a move until
// it is done.
type ticket struct {
	g      *Guard
	write  string    // open for writing
	made   string    // being created; forgotten if that fails
	move   string    // being published under another name
	lock   *lockFile // being created
	ends   *lockFile // removed by this operation
	to     string    // or renamed to this
	failed bool
}

// Made implements fusefs.Maker: the file exists now.
func (t *ticket) Made(fd int) {
	if t.lock != nil {
		t.g.lockMade(t.lock, fd)
	}
}

// Failed implements fusefs.Failer. The file was made by another process, or was not removed and
// still exists.
func (t *ticket) Failed() {
	t.failed = true
	if t.made != "" {
		t.g.mu.Lock()
		delete(t.g.made, t.made)
		t.g.mu.Unlock()
	}
	t.g.dropLock(t.lock)
}

// Done implements fusefs.Ticket.
func (t *ticket) Done() {
	if t.ends != nil && !t.failed {
		if t.to != "" {
			t.g.renameLock(t.ends, t.to)
		} else {
			t.g.dropLock(t.ends)
		}
	}
	if t.write == "" && t.move == "" {
		return
	}
	t.g.mu.Lock()
	defer t.g.mu.Unlock()
	if t.move != "" {
		if t.g.moving[t.move]--; t.g.moving[t.move] <= 0 {
			delete(t.g.moving, t.move)
		}
	}
	if t.write == "" {
		return
	}
	if t.g.writers[t.write]--; t.g.writers[t.write] <= 0 {
		delete(t.g.writers, t.write)
	}
	close(t.g.idle)
	t.g.idle = make(chan struct{})
}

// open counts a write handle. made means that the temporary file is new.
func (g *Guard) open(path string, made bool, lock *lockFile) fusefs.Ticket {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.writers[path]++
	t := &ticket{g: g, write: path, lock: lock}
	if made {
		t.made = path
	}
	return t
}

// hold keeps the old name unchanged from the decision to the end of the I/O: what was checked is
// what is published. ends is the lock file that is removed with it. ok is false if that file is
// not this mount's.
func (g *Guard) hold(path string, ends *lockFile) (_ fusefs.Ticket, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if ends != nil && g.locks[ends.path] != ends {
		return nil, false
	}
	g.moving[path]++
	return &ticket{g: g, move: path, ends: ends}, true
}

var (
	_ fusefs.Failer = (*ticket)(nil)
	_ fusefs.Maker  = (*ticket)(nil)
)
