package gitdir

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"polis/fusefs"
)

// Denial is one refusal, for the audit and for the agent's own why.
type Denial struct {
	Time     time.Time
	Op, Path string
	Code     string
	Errno    syscall.Errno
	Pid      uint32
	Hint     string
}

// Config says whose git directory this is.
type Config struct {
	Agent    string
	Worktree string           // name below worktrees/
	Target   string           // full name of the target branch, never the agent's
	Owned    []string         // full names of refs the agent owns already
	RootFD   int              // the shared directory; duplicated
	OnOwn    func(ref string) // the agent made a ref
	OnDisown func(ref string) // the agent removed one of its own
	OnDenial func(Denial)
	Log      *slog.Logger
	Now      func() time.Time
}

// writersWait bounds the wait for the last writer of something that is being
// published: close(2) returns before the kernel tells us of it.
const writersWait = 2 * time.Second

// Guard decides about the shared git directory.
type Guard struct {
	cfg  Config
	root int

	mu      sync.Mutex
	owned   map[string]bool // refs
	made    map[string]bool // lock and temporary files made through this mount
	sealed  map[string]bool // temporaries that were published by a hard link
	writers map[string]int  // open write handles
	moving  map[string]int  // old names of renames and links under way
	idle    chan struct{}   // closed and replaced when a write handle closes
	packed  packedCache
}

// New makes the guard; Close gives back its descriptor.
func New(c Config) (*Guard, error) {
	if c.Worktree == "" || c.Target == "" {
		return nil, errors.New("gitdir: worktree and target must be given")
	}
	fd, err := dupDir(c.RootFD)
	if err != nil {
		return nil, err
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	g := &Guard{cfg: c, root: fd, owned: map[string]bool{}, made: map[string]bool{}, sealed: map[string]bool{}, writers: map[string]int{}, moving: map[string]int{}, idle: make(chan struct{})}
	for _, r := range c.Owned {
		if r != c.Target {
			g.owned[r] = true
		}
	}
	return g, nil
}

// Close releases the descriptor; the guard must not be used afterwards.
func (g *Guard) Close() error { return closeDir(g.root) }

// Route is part of fusefs.Guard.
func (g *Guard) Route(path string) int { return Route(path) }

// Read is part of fusefs.Guard: what is visible may be read.
func (g *Guard) Read(_ context.Context, c fusefs.Caller, op fusefs.Op, path string) syscall.Errno {
	if g.Visible(path, false) {
		return 0
	}
	return g.deny(c, op, path, "UNDECLARED_READ", "this belongs to another agent")
}

// Xattr is part of fusefs.Guard; there are no virtual attributes here.
func (*Guard) Xattr(string, string) ([]byte, bool) { return nil, false }

// Count is part of fusefs.Guard; git's own bookkeeping is not the agent's work.
func (*Guard) Count(fusefs.Op, bool, syscall.Errno, int64) {}

func (g *Guard) mine(path string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.made[path]
}

func (g *Guard) owns(ref string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.owned[ref]
}

// Owned lists the agent's refs.
func (g *Guard) Owned() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]string, 0, len(g.owned))
	for r := range g.owned {
		out = append(out, r)
	}
	return out
}

func (g *Guard) deny(c fusefs.Caller, op fusefs.Op, path, code, hint string) syscall.Errno {
	if g.cfg.OnDenial != nil {
		g.cfg.OnDenial(Denial{Time: g.cfg.Now(), Op: string(op), Path: ".git/" + path, Code: code, Errno: syscall.EACCES, Pid: c.Pid, Hint: hint})
	}
	return syscall.EACCES
}

// ticket is what one permitted operation holds: a write handle until it
// closes, or a move until it is done.
type ticket struct {
	g     *Guard
	write string // open for writing
	made  string // being created; forgotten if that fails
	move  string // being published under another name
}

// Failed is part of fusefs.Failer: a file somebody else made is not ours.
func (t *ticket) Failed() {
	if t.made != "" {
		t.g.mu.Lock()
		delete(t.g.made, t.made)
		t.g.mu.Unlock()
	}
}

// Done is part of fusefs.Ticket.
func (t *ticket) Done() {
	if t.g == nil || t.write == "" && t.move == "" {
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

func (g *Guard) open(path string, made bool) fusefs.Ticket {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.writers[path]++
	t := &ticket{g: g, write: path}
	if made {
		t.made = path
	}
	return t
}

// hold keeps the old name as it is from the decision to the end of the I/O:
// what was looked at is what is published.
func (g *Guard) hold(path string) fusefs.Ticket {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.moving[path]++
	return &ticket{g: g, move: path}
}

// closed waits until nobody has path open for writing any more.
func (g *Guard) closed(ctx context.Context, path string) bool {
	t := time.NewTimer(writersWait)
	defer t.Stop()
	for {
		g.mu.Lock()
		n, ch := g.writers[path], g.idle
		g.mu.Unlock()
		if n == 0 {
			return true
		}
		select {
		case <-ch:
		case <-t.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}
