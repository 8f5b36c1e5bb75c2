package maintain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/daemon/git"
)

// historyTimeout bounds the check of a repository that is known to be damaged.
const historyTimeout = time.Minute

// Repo is the repository as its owner.
type Repo interface {
	// Check returns git.ErrDamaged if something that the ref reaches is missing; without history
	// it checks only the tip.
	Check(ctx context.Context, ref string, history bool, timeout time.Duration) error
}

// Record is the result of the last check of a workspace's shared repository. Set the fields, then
// use it. A repository that was not checked counts as complete.
type Record struct {
	Workspace string
	// Dir is the directory of the repository.
	Dir  string
	Repo Repo
	// Target returns the short name of the branch that must be complete.
	Target  func() string
	Publish func(api.Event)
	Log     *slog.Logger

	mu     sync.Mutex
	damage error // nil: complete, or not known to be damaged
}

// Check checks that the tip of the target branch is complete, and returns the damage. Maintenance
// checks the history; Check does so only if the repository is known to be damaged.
func (r *Record) Check(ctx context.Context) error {
	return r.Note(r.Repo.Check(ctx, git.Branch(r.Target()), r.damaged() != nil, historyTimeout))
}

// Note records the result of a check and returns the damage. It reports a changed result. An error
// that is not damage leaves the record unchanged.
func (r *Record) Note(found error) error {
	damaged := errors.Is(found, git.ErrDamaged)
	if found != nil && !damaged {
		r.Log.Warn("shared repository not checked", "path", r.Dir, "err", found)
		return r.Damage()
	}
	r.mu.Lock()
	was := r.damage
	r.damage = found
	r.mu.Unlock()
	switch {
	case damaged && was == nil:
		r.Log.Error("shared repository damaged: nothing is added, merged or maintained", "path", r.Dir, "err", found)
		r.Publish(api.Event{Type: api.EventDamaged, Code: api.CodeRepoCorrupt, Message: fmt.Sprintf("the repository of workspace %s is damaged: %v", r.Workspace, found), Data: map[string]any{"workspace": r.Workspace}})
	case !damaged && was != nil:
		r.Log.Info("shared repository whole again", "path", r.Dir)
		r.Publish(api.Event{Type: api.EventDamaged, Message: "the repository of workspace " + r.Workspace + " is whole again", Data: map[string]any{"workspace": r.Workspace}})
	}
	return r.Damage()
}

func (r *Record) damaged() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.damage
}

// Damage returns REPO_CORRUPT if the last check found damage, else nil.
func (r *Record) Damage() error {
	damage := r.damaged()
	if damage == nil {
		return nil
	}
	return api.Errorf(api.CodeRepoCorrupt, "%s: %w", r.Dir, damage).
		WithHint("git -C %s fsck --connectivity-only %s names what is missing; fetch it there from a copy of the project, then polisctl doctor checks it again. Agents continue, and their work can be saved", r.Dir, git.Branch(r.Target()))
}

// Examine checks the repository for doctor.
func (r *Record) Examine(ctx context.Context) api.Check {
	target := r.Target()
	c := api.Check{Name: "repository of " + r.Workspace, State: api.CheckOK, Found: "the tip of " + target + " is whole"}
	if err := r.Check(ctx); err != nil {
		c = api.Check{Name: c.Name, State: api.CheckFail, Found: api.Shorten(err.Error(), 500), Code: api.CodeRepoCorrupt,
			Cost:      "nothing is added, merged or maintained in the workspace until it is whole; running agents continue",
			Fix:       "git -C " + r.Dir + " fsck --connectivity-only " + git.Branch(target) + " names what is missing; fetch it there from a copy of the project, then run this again",
			NoCommand: "what is missing can only come from a copy of the project, and which copies there are, only you know"}
	}
	return c
}
