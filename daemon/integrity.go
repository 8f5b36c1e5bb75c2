package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"polis/daemon/api"
	"polis/daemon/git"
)

// historyTimeout bounds the check of a repository that is known to be damaged.
const historyTimeout = time.Minute

// checkRepository checks that the tip of the target branch is complete. Maintenance checks the
// history; this function does so only if the repository is known to be damaged.
func (d *Daemon) checkRepository(ctx context.Context, w *workspace) error {
	d.mu.Lock()
	target, damaged := w.state.TargetBranch, w.damage != nil
	d.mu.Unlock()
	return d.noteIntegrity(w, w.git.Bare().Check(ctx, git.Branch(target), damaged, historyTimeout))
}

// noteIntegrity records the result of a check of the repository and returns the damage. It logs a
// changed result. An error that is no damage leaves the record unchanged.
func (d *Daemon) noteIntegrity(w *workspace, found error) error {
	damaged := errors.Is(found, git.ErrDamaged)
	if found != nil && !damaged {
		d.Log.Warn("shared repository not checked", "path", w.root.Bare(), "err", found)
		return w.whole()
	}
	d.mu.Lock()
	was := w.damage
	w.damage = nil
	if damaged {
		w.damage = found
	}
	d.mu.Unlock()
	name := w.agents.Name
	switch {
	case damaged && was == nil:
		d.Log.Error("shared repository damaged: nothing is added, merged or maintained", "path", w.root.Bare(), "err", found)
		d.hub.Publish(api.Event{Type: api.EventDamaged, Code: api.CodeRepoCorrupt, Message: fmt.Sprintf("the repository of workspace %s is damaged: %v", name, found), Data: map[string]any{"workspace": name}})
	case !damaged && was != nil:
		d.Log.Info("shared repository whole again", "path", w.root.Bare())
		d.hub.Publish(api.Event{Type: api.EventDamaged, Message: "the repository of workspace " + name + " is whole again", Data: map[string]any{"workspace": name}})
	}
	return w.whole()
}

// whole returns an error if the repository is damaged.
func (w *workspace) whole() error {
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	if w.damage == nil {
		return nil
	}
	return api.Errorf(api.CodeRepoCorrupt, "%s: %w", w.root.Bare(), w.damage).
		WithHint("git -C %s fsck --connectivity-only %s names what is missing; fetch it there from a copy of the project, then polisctl doctor checks it again. Agents continue, and their work can be saved", w.root.Bare(), git.Branch(w.state.TargetBranch))
}

// repositoryChecks checks the repositories of all workspaces for doctor.
func (d *Daemon) repositoryChecks(ctx context.Context) []api.Check {
	var out []api.Check
	for _, w := range d.gitWorkspaces("") {
		c := api.Check{Name: "repository of " + w.agents.Name, State: api.CheckOK, Found: "the tip of " + w.agents.Target + " is whole"}
		if err := d.checkRepository(ctx, w); err != nil {
			c = api.Check{Name: c.Name, State: api.CheckFail, Found: api.Shorten(err.Error(), 500), Code: api.CodeRepoCorrupt,
				Cost: "nothing is added, merged or maintained in the workspace until it is whole; running agents continue",
				Fix:  "git -C " + w.root.Bare() + " fsck --connectivity-only " + git.Branch(w.agents.Target) + " names what is missing; fetch it there from a copy of the project, then run this again"}
		}
		out = append(out, c)
	}
	return out
}
