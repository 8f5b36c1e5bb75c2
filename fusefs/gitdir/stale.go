package gitdir

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"polis/fusefs/gitdir/level"
)

const (
	// sweepEvery is the interval of the checks while lock files exist. Most exist for milliseconds
	// and are never checked.
	sweepEvery = 250 * time.Millisecond
	// goneWait is how long the process that made a lock file must have been gone, while no process
	// has the file open, before the file is stale.
	goneWait = 750 * time.Millisecond
	// tempWait is the same for temporary files, for which only the creating thread is known.
	tempWait = 5 * time.Second
)

// Cleared is a stale lock file that was removed.
type Cleared struct {
	Path string // below the git directory
	Why  string
	Pid  int
}

func (g *Guard) wakeSweeper() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// Run removes stale lock files, and releases locks that were held for too long, until ctx ends.
func (g *Guard) Run(ctx context.Context) {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		select {
		case <-g.wake:
		case <-ctx.Done():
			return
		}
		for left := 1; left > 0; left = g.sweep() {
			select {
			case <-t.C:
			case <-ctx.Done():
				return
			}
		}
	}
}

// sweep checks every lock file once and returns the number that is left.
func (g *Guard) sweep() int {
	now := g.cfg.Now()
	g.mu.Lock()
	var old []*lockFile
	for path, f := range g.locks {
		if !f.made.zero() && now.Sub(f.since) >= sweepEvery && g.moving[path] == 0 {
			old = append(old, f)
		}
	}
	g.mu.Unlock()
	for _, f := range old {
		if f.owner.id == 0 && f.pid != 0 {
			f.owner = processOf(f.pid)
			if f.owner.id == 0 {
				f.owner = process{id: int(f.pid)} // it has exited already
			}
		}
		alive := f.owner.alive()
		g.mu.Lock()
		why := g.judge(f, alive, now)
		g.mu.Unlock()
		if why != "" {
			g.clear(f, why)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.locks)
}

// judge returns why a lock file must be removed, or "". It removes such a file from the set: its
// process can then publish nothing with it. g.mu is held.
func (g *Guard) judge(f *lockFile, alive bool, now time.Time) string {
	if g.locks[f.path] != f || g.moving[f.path] > 0 {
		return ""
	}
	age := now.Sub(f.since)
	if f.lock.Level == level.Exclusive && f.lease != nil && age > allBound {
		f.lease.Release()
		f.lease = nil
		g.rest[f.lock.Ref] = now.Add(restWait)
	}
	why := ""
	switch {
	case !alive && g.writers[f.path] == 0:
		if f.gone.IsZero() {
			f.gone = now
		}
		if now.Sub(f.gone) >= f.goneWait() {
			why = fmt.Sprintf("process %d that made it has ended", f.owner.id)
		}
	case f.bound() > 0 && age > f.bound():
		why = fmt.Sprintf("process %d has kept it for %s", f.owner.id, age.Round(time.Second))
		g.rest[f.lock.Ref] = now.Add(restWait)
	default:
		f.gone = time.Time{}
	}
	if why != "" {
		g.forget(f)
	}
	return why
}

func (f *lockFile) goneWait() time.Duration {
	if f.temp {
		return tempWait
	}
	return goneWait
}

// clear removes the file, then releases the lock, so that the next holder does not find the file.
func (g *Guard) clear(f *lockFile, why string) {
	path, err := removeIf(g.roots[Route(f.path, g.cfg.Worktree)], f.path, f.made)
	f.release()
	g.journal.drop(g)
	if err != nil {
		g.cfg.Log.Error("stale lock file of git not removed", "agent", g.cfg.Agent, "path", f.path, "err", err)
		return
	}
	if path == "" {
		return // its process removed it
	}
	if f.temp {
		g.cfg.Log.Info("unfinished object of git removed", "agent", g.cfg.Agent, "path", f.path, "why", why)
		return
	}
	g.cfg.Log.Warn("stale lock file of git removed", "agent", g.cfg.Agent, "path", f.path, "why", why)
	if g.cfg.OnCleared != nil {
		g.cfg.OnCleared(Cleared{Path: ".git/" + f.path, Why: why, Pid: f.owner.id})
	}
}

// lockMade records the identity of a lock file after its creation.
func (g *Guard) lockMade(f *lockFile, fd int) {
	id, err := identify(fd, "", unix.AT_EMPTY_PATH)
	if err != nil {
		g.cfg.Log.Error("lock file of git not identified: it stays if its process dies", "path", f.path, "err", err)
		return
	}
	g.mu.Lock()
	f.made = id
	g.mu.Unlock()
	g.journal.add(g, f)
}
