package maintain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"polis/daemon/api"
	"polis/daemon/git"
)

// Maintainer works on one shared repository. Set the fields, then Run; one Run
// at a time.
type Maintainer struct {
	// Repo is the shared repository as its owner.
	Repo git.Repo
	// Private are directories of agents with refs and reflogs of their own.
	Private []string
	// Exclusive waits, within its own bound, for the lock of all refs.
	Exclusive func(ctx context.Context) (release func(), err error)
	// Grace is how long what nothing needs stays, from the last time it was written.
	Grace time.Duration
	// Timeout bounds one command.
	Timeout time.Duration
	Log     *slog.Logger
	Now     func() time.Time
	// Progress is told of each step; nil for nobody.
	Progress func(string)
}

// config bounds what packing takes of the machine.
var config = []string{"pack.threads=1", "pack.windowMemory=128m", "pack.deltaCacheSize=64m", "core.packedRefsTimeout=5000"}

// plan is what the work before the lock found.
type plan struct {
	rolled  []string        // packs whose objects are in a new pack, without extension
	unused  map[string]bool // ids of loose objects that nothing seemed to need
	tips    []string        // what refs pointed to when that was seen
	expired time.Time
}

// Run does everything once. A step that fails does not keep the others from
// being tried; the error joins what failed. DryRun changes nothing.
func (m *Maintainer) Run(ctx context.Context, dryRun bool) (rep api.MaintenanceReport, err error) {
	rep.DryRun, rep.StartedAt = dryRun, m.Now().UTC()
	if m.Progress == nil {
		m.Progress = func(string) {}
	}
	if rep.Before, err = m.measure(ctx); err != nil {
		return rep, err
	}
	p := &plan{expired: m.Now().Add(-m.Grace)}
	var errs []error
	step := func(what string, f func() error) {
		if ctx.Err() != nil {
			return
		}
		m.Progress(what)
		start := time.Now()
		err := f()
		s := api.MaintenanceStep{Name: what, Millis: time.Since(start).Milliseconds()}
		if err != nil {
			s.Error = err.Error()
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
			m.Log.Warn("maintenance", "op", what, "path", m.Repo.Dir, "err", err)
		}
		rep.Steps = append(rep.Steps, s)
	}
	if !dryRun {
		step("pack loose objects", func() error { return m.pack(ctx) })
		step("join small packs", func() error { return m.join(ctx, p) })
	}
	step("look for objects that nothing needs", func() error { return m.look(ctx, p) })
	if dryRun {
		rep.Unused = len(p.unused)
		rep.After = rep.Before
		return rep, errors.Join(append(errs, ctx.Err())...)
	}
	step("remove what is not needed", func() error { return m.remove(ctx, p, &rep) })
	step("write the commit-graph", func() error {
		_, err := m.git(ctx, "commit-graph", "write", "--reachable", "--no-progress")
		return err
	})
	after, err := m.measure(context.WithoutCancel(ctx))
	if err == nil {
		rep.After = after
	}
	rep.FinishedAt = m.Now().UTC()
	return rep, errors.Join(append(errs, err, ctx.Err())...)
}

// git runs one command; some start git again for parts of their work.
func (m *Maintainer) git(ctx context.Context, args ...string) ([]byte, error) {
	return m.Repo.Do(ctx, git.Cmd{Args: args, Config: config, Children: args[0] == "repack" || args[0] == "verify-pack", Timeout: m.Timeout})
}

// pack puts loose objects that something reaches into a new pack. It deletes
// nothing, and so needs no lock.
func (m *Maintainer) pack(ctx context.Context) error {
	_, err := m.git(ctx, "repack", "-l", "-q")
	return err
}

// remove is the part under the exclusive lock.
func (m *Maintainer) remove(ctx context.Context, p *plan, rep *api.MaintenanceReport) error {
	release, err := m.Exclusive(ctx)
	if err != nil {
		return err
	}
	defer release()
	start := time.Now()
	defer func() { rep.LockedMillis = time.Since(start).Milliseconds() }()
	_, refs := m.git(ctx, "pack-refs", "--all")
	packed := m.dropPacked(ctx)
	var gone error
	rep.PacksJoined, gone = m.dropPacks(p.rolled)
	var unused error
	rep.Removed, unused = m.prune(ctx, p)
	return errors.Join(refs, packed, gone, unused)
}
