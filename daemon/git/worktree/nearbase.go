package worktree

import (
	"context"
	"errors"
	"path"

	"polis/daemon/git"
	"polis/internal/failpoint"
)

// A new worktree whose commit has no base tree yet begins on the base of a commit near it: the files
// that differ are checked out into its upper layer, and it shares all others. So agents on near
// commits share files, their blocks and their pages in the cache, and no checkout is needed after
// each merge. A base is never made of another one: a hard link would let damage of one reach the
// other, and a copy is another set of blocks and pages.
const (
	// nearPaths is the most paths at which a near commit can differ. They cost each agent disk, and a
	// few milliseconds for each hundred when it is added.
	nearPaths = 500
	// nearBytes is the most bytes that these files can have.
	nearBytes = 8 << 20
	// nearTries is how many bases are compared, the newest first. Each takes a start of git.
	nearTries = 3
)

// nearBase returns the base on which a new worktree of a git tree begins: tree itself if that base
// exists, or if no other one is near.
func (w *Workspace) nearBase(ctx context.Context, agent, tree string) string {
	ids := w.bases.Newest(w.minIndex)
	for _, id := range ids {
		if id == tree {
			return tree
		}
	}
	best, least := tree, nearPaths+1
	for _, id := range ids[:min(len(ids), nearTries)] {
		changes, err := w.Bare().Changes(ctx, id, tree)
		if err != nil {
			// Its objects may have expired with the commits that had them.
			w.cfg.Log.Debug("base tree not compared", "op", "base", "path", id, "err", err)
			continue
		}
		if n := len(changes); n < least && w.mayBegin(ctx, agent, tree, changes) {
			best, least = id, n
		}
	}
	return best
}

// mayBegin reports whether a worktree can begin on another base with these changes.
func (w *Workspace) mayBegin(ctx context.Context, agent, tree string, changes []git.Change) bool {
	removes := false
	var ids []string
	for _, c := range changes {
		// Other files could be checked out otherwise than they are.
		if path.Base(c.Path) == ".gitattributes" {
			return false
		}
		removes = removes || c.Status != 'A' && c.Status != 'M'
		if c.Status != 'D' {
			ids = append(ids, c.ID)
		}
	}
	// What removes a file of the base would cover what the setup command made there.
	if removes && w.hasSetup(ctx, agent, tree) {
		return false
	}
	if len(ids) == 0 {
		return true
	}
	sizes, err := w.Bare().Sizes(ctx, ids)
	sum := int64(0)
	for _, n := range sizes {
		sum += n
	}
	return err == nil && sum <= nearBytes
}

// hasSetup reports whether there are files of the setup command for a git tree.
func (w *Workspace) hasSetup(ctx context.Context, agent, tree string) (has bool) {
	if w.cfg.Setups == nil {
		return false
	}
	err := w.cfg.Setups.Claim(ctx, agent, tree, func(SetupRecord) error {
		has = true
		return nil
	})
	return has || err != nil
}

// advance checks out the files at which a git tree differs from the base of a new worktree, whose
// layers are mounted and whose index is that of the base.
func (w *Workspace) advance(ctx context.Context, agent, from, to string) error {
	c := w.cmd(agent, View{}, "", "read-tree", "-m", "-u", from, to)
	c.Write, c.Timeout = []string{w.tree(agent)}, checkoutTimeout
	if _, err := w.Bare().Do(ctx, c); err != nil {
		return errors.Join(errNotAdvanced, err)
	}
	failpoint.Hit("layers:advanced")
	w.cfg.Log.Info("worktree begins on a near base tree", "agent", agent, "op", "worktree add", "path", w.bases.At(from).Tree)
	return nil
}

var errNotAdvanced = errors.New("files that differ from the base tree not checked out")
