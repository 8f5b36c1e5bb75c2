package gitdir

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"polis/fusefs"
)

// Denial is one refusal, for the audit and for polisctl agents why.
type Denial struct {
	Time     time.Time
	Op, Path string
	Code     string
	Errno    syscall.Errno
	Pid      uint32
	Hint     string
	// Holder is the agent that holds the requested lock, since Since.
	Holder string
	Since  time.Time
}

// Config describes the git directory and its agent.
type Config struct {
	Agent    string
	Worktree string           // name below worktrees/
	Target   string           // full name of the target branch, never the agent's
	Owned    []string         // full names of refs the agent owns already
	Remotes  bool             // the agent may write what its git knows of remotes
	RootFD   int              // the shared directory; duplicated
	OnOwn    func(ref string) // the agent made a ref
	OnDisown func(ref string) // the agent removed one of its own
	OnDenial func(Denial)
	// ReadOnly refuses every change with EROFS.
	ReadOnly bool
	// PrivateFD is the directory of the agent's own part; duplicated. It is needed to remove stale
	// lock files there; 0 if the agent has none.
	PrivateFD int
	// Locker is the shared table of locks. Without it only git's own lock files exclude others.
	Locker Locker
	// OnCleared is called by Run with the stale lock files that it removed, so that the kernel's
	// cache of them can be invalidated.
	OnCleared func(Cleared)
	// Journal is a file that only root writes. It records the present lock files; see Recover.
	// Empty disables it.
	Journal string
	// Packs checks packs. Without it no pack can be added.
	Packs Packs
	// Quota is the most bytes on disk that the agent may add to objects; 0 sets no limit. Used is
	// what it has added before. OnUsed is called with the new sum when it grows.
	Quota, Used int64
	OnUsed      func(int64)
	// Disk is called before an operation that may take space in the agent's own part, and before
	// an object is begun. It returns "" to allow the operation; else it returns which limit is
	// reached, and what to do. It must not block. May be nil.
	Disk func(op fusefs.Op) string
	// Counted is called with the change of the number of files and directories in the agent's own
	// part (fusefs.ObjectCounter). It must not block. May be nil.
	Counted func(n int)
	Log     *slog.Logger
	Now     func() time.Time
}

// writersWait is how long Publish waits for the last writer of a file: close(2) returns before the
// kernel sends the release.
const writersWait = 2 * time.Second

// Guard decides about operations in the shared git directory.
type Guard struct {
	cfg     Config
	root    int
	roots   []int // the shared directory and the agent's own part
	journal *journal
	wake    chan struct{} // lock files need a check
	packing chan struct{} // one pack is checked at a time

	mu      sync.Mutex
	locks   map[string]*lockFile
	rest    map[string]time.Time // locks that this agent must not take until then
	packs   map[string]PackSums  // packs of this mount, by name
	used    int64
	owned   map[string]bool      // refs
	whole   map[string]time.Time // revisions found complete, and when
	made    map[string]bool      // temporary files made through this mount
	sealed  map[string]bool      // temporaries that were published by a hard link
	writers map[string]int       // open write handles
	moving  map[string]int       // old names of renames and links under way
	idle    chan struct{}        // closed and replaced when a write handle closes
	packed  packedCache
}

// New makes the guard. The caller must call Close.
func New(c Config) (*Guard, error) {
	if c.Worktree == "" || c.Target == "" {
		return nil, errors.New("gitdir: worktree and target must be given")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	g := &Guard{cfg: c, owned: map[string]bool{}, made: map[string]bool{}, sealed: map[string]bool{}, writers: map[string]int{}, moving: map[string]int{},
		idle: make(chan struct{}), locks: map[string]*lockFile{}, rest: map[string]time.Time{}, packs: map[string]PackSums{}, whole: map[string]time.Time{}, used: c.Used,
		wake: make(chan struct{}, 1), packing: make(chan struct{}, 1)}
	var err error
	if g.journal, err = openJournal(c.Journal); err != nil {
		return nil, err
	}
	for _, fd := range []int{c.RootFD, cmp.Or(c.PrivateFD, c.RootFD)} {
		dup, err := dupDir(fd)
		if err != nil {
			return nil, errors.Join(err, g.Close())
		}
		g.roots = append(g.roots, dup)
	}
	g.root = g.roots[0]
	for _, r := range c.Owned {
		if r != c.Target {
			g.owned[r] = true
		}
	}
	return g, nil
}

// Close closes the guard's descriptors. Run must have returned, and the guard must not be used
// afterwards.
func (g *Guard) Close() error {
	errs := []error{g.journal.close()}
	for _, fd := range g.roots {
		errs = append(errs, closeDir(fd))
	}
	g.mu.Lock()
	left := g.locks
	g.locks = map[string]*lockFile{}
	g.mu.Unlock()
	for _, f := range left {
		f.release()
	}
	return errors.Join(errs...)
}

// Route implements fusefs.Guard.
func (g *Guard) Route(path string) int { return Route(path, g.cfg.Worktree) }

// Read implements fusefs.Guard: what is visible may be read.
func (g *Guard) Read(_ context.Context, c fusefs.Caller, op fusefs.Op, path string) syscall.Errno {
	if g.Visible(path, false) {
		return 0
	}
	return g.deny(c, op, path, "UNDECLARED_READ", "this belongs to another agent")
}

// Xattr implements fusefs.Guard. This directory has no virtual attributes.
func (*Guard) Xattr(string, string) ([]byte, bool) { return nil, false }

// Count implements fusefs.Guard. Git's own files are not counted as the agent's work.
func (*Guard) Count(fusefs.Op, bool, syscall.Errno, int64) {}

func (g *Guard) mine(path string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.made[path]
}

func (g *Guard) owns(ref string) bool {
	if ofRemote(ref) {
		return g.cfg.Remotes
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.owned[ref]
}

// Owned returns the agent's refs.
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
	return g.refuseWith(c, op, path, syscall.EACCES, Denial{Code: code, Hint: hint})
}

// refuseWith records a refusal and returns its errno.
func (g *Guard) refuseWith(c fusefs.Caller, op fusefs.Op, path string, errno syscall.Errno, d Denial) syscall.Errno {
	if g.cfg.OnDenial != nil {
		d.Time, d.Op, d.Path, d.Errno, d.Pid = g.cfg.Now(), string(op), ".git/"+path, errno, c.Pid
		g.cfg.OnDenial(d)
	}
	return errno
}

// closed waits until no process has path open for writing.
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
