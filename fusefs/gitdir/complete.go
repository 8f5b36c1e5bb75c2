package gitdir

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// maxRefs bounds the refs an agent owns: every git that reads all refs pays for each.
	maxRefs = 4096
	// completeFor is how long an object that was found complete is not looked at again.
	completeFor = time.Minute
	maxComplete = 20_000 // of them, and of those asked for at once
)

// complete requires that all objects that a ref reaches exist, and a commit for a branch, and
// publishes them: a dangling ref makes every git fail that reads all refs, also the daemon's.
func (g *Guard) complete(ctx context.Context, ref, hash string) error {
	if g.cfg.Packs == nil {
		return errors.New("nothing is there to check what the ref leads to")
	}
	rev := revision(ref, hash)
	if g.foundComplete(rev) {
		return nil
	}
	// git writes all lock files of a transaction before it renames the first:
	// a fetch of a thousand tags is one question.
	if all := g.pending(rev); len(all) > 1 && g.publish(ctx, all...) == nil {
		g.noteComplete(all)
		return nil
	}
	// A branch that goes on is looked at from where it was, which is quicker than
	// from all refs.
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

// publish has what the revisions lead to moved to the shared repository.
func (g *Guard) publish(ctx context.Context, revs ...string) error {
	n, err := g.cfg.Packs.Publish(ctx, revs...)
	if n > 0 && g.cfg.Counted != nil {
		g.cfg.Counted(-n)
	}
	return err
}

// isReflog says whether git writes down in a file where a ref has been.
func (g *Guard) isReflog(path string) bool {
	return path == "worktrees/"+g.cfg.Worktree+"/logs/HEAD" || classify(path, g.cfg.Worktree) == classReflog
}

// publishLocked publishes what refs are about to lead to. git writes the lock
// files of a transaction, then the logs, and then renames the locks: others must
// not find in a log what they do not have, also if git dies before it renames. What
// cannot be published is refused when its ref is to lead there.
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
			continue // a ref that is removed, or not written yet
		}
		if err := g.complete(ctx, ref, hash); err != nil {
			g.cfg.Log.Debug("not published yet", "agent", g.cfg.Agent, "path", ref, "err", err)
			return
		}
	}
}

// revision is the revision expression for what a ref must be.
func revision(ref, hash string) string {
	if strings.HasPrefix(ref, "refs/heads/") {
		return hash + "^{commit}"
	}
	return hash
}

// pending are rev and what else the lock files of this mount hold just now.
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
