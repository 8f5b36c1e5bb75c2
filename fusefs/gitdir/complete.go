package gitdir

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// maxRefs is the most refs that an agent may own: every git that reads all refs reads them.
	maxRefs = 4096
	// maxRefBytes bounds their names together: polisd reads them in one answer of the shim.
	maxRefBytes = 512 << 10
	// completeFor is how long the result that an object is complete is cached.
	completeFor = time.Minute
	maxComplete = 20_000 // cached results, and revisions that are checked at once
)

// complete checks that all objects that a ref reaches exist, and that a branch points to a commit.
// It then publishes the objects. A dangling ref would make every git fail that reads all refs,
// including the daemon's.
func (g *Guard) complete(ctx context.Context, ref, hash string) error {
	if g.cfg.Packs == nil {
		return errors.New("the objects that the ref leads to cannot be checked")
	}
	rev := revision(ref, hash)
	if g.foundComplete(rev) {
		return nil
	}
	// git writes all lock files of a transaction before it renames the first. All of them are
	// checked in one request, such as the thousand tags of a fetch.
	if all := g.pending(rev); len(all) > 1 && g.publish(ctx, all...) == nil {
		g.noteComplete(all)
		return nil
	}
	// A branch that advances is checked from its present value, which is faster than from all
	// refs.
	if old, err := g.readRef(ref); err == nil && isHash(old) && g.publish(ctx, rev, "^"+old) == nil {
		g.noteComplete([]string{rev})
		return nil
	}
	if err := g.publish(ctx, rev); err != nil {
		return fmt.Errorf("%s would lead to what is not there: %w", ref, err)
	}
	g.noteComplete([]string{rev})
	return nil
}

// publish makes the daemon move the objects that the revisions reach to the shared repository.
func (g *Guard) publish(ctx context.Context, revs ...string) error {
	n, err := g.cfg.Packs.Publish(ctx, revs...)
	if n > 0 && g.cfg.Counted != nil {
		g.cfg.Counted(-n)
	}
	return err
}

// isReflog reports whether path is a reflog.
func (g *Guard) isReflog(path string) bool {
	return path == "worktrees/"+g.cfg.Worktree+"/logs/HEAD" || classify(path, g.cfg.Worktree) == classReflog
}

// publishLocked publishes what the locked refs will point to. git writes the lock files of a
// transaction, then the reflogs, and then renames the locks. Other agents must not find ids in a
// reflog whose objects they cannot read, even if git dies before the rename. Objects that cannot
// be published are refused when the ref is renamed.
func (g *Guard) publishLocked(ctx context.Context) {
	g.mu.Lock()
	var refs []string
	for p := range g.locks {
		if len(refs) < maxComplete && classify(p, g.cfg.Worktree) == classRefLock {
			refs = append(refs, refName(p))
		}
	}
	g.mu.Unlock()
	for _, ref := range refs {
		hash, err := g.readRef(ref + ".lock")
		if err != nil || !isHash(hash) || ctx.Err() != nil {
			continue // the ref is removed, or not written yet
		}
		if err := g.complete(ctx, ref, hash); err != nil {
			g.cfg.Log.Debug("not published yet", "agent", g.cfg.Agent, "path", ref, "err", err)
			return
		}
	}
}

// revision returns the revision expression that requires the type that a ref must have.
func revision(ref, hash string) string {
	if strings.HasPrefix(ref, "refs/heads/") {
		return hash + "^{commit}"
	}
	return hash
}

// pending returns rev and the values in the other lock files of this mount.
func (g *Guard) pending(rev string) []string {
	g.mu.Lock()
	var paths []string
	for p := range g.locks {
		if len(paths) < maxComplete && classify(p, g.cfg.Worktree) == classRefLock {
			paths = append(paths, p)
		}
	}
	g.mu.Unlock()
	all, seen := []string{rev}, map[string]bool{rev: true}
	for _, p := range paths {
		hash, err := g.readRef(p)
		if err != nil || !isHash(hash) {
			continue // not written yet
		}
		if r := revision(p, hash); !seen[r] && !g.foundComplete(r) {
			seen[r] = true
			all = append(all, r)
		}
	}
	return all
}

func (g *Guard) foundComplete(rev string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, ok := g.whole[rev]
	return ok && g.cfg.Now().Sub(at) < completeFor
}

func (g *Guard) noteComplete(revs []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.whole)+len(revs) > maxComplete {
		clear(g.whole)
	}
	for _, r := range revs {
		g.whole[r] = g.cfg.Now()
	}
}
