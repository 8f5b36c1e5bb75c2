package maintain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/git"
)

// Maintainer works on one shared repository. Set the fields, then Run; one Run
// at a time.
type Maintainer struct {
	// Repo is the shared repository as its owner.
	Repo git.Repo
	// Target is the full name of the branch that must be whole before anything is changed;
	// "" for none.
	Target string
	// Internal borrows from Repo; the zero Repo for none.
	Internal git.Repo
	// Private holds a directory for each agent, with refs, reflogs and objects of
	// its own; "" for none.
	Private string
	// Exclusive waits, within its own bound, for the lock of all refs.
	Exclusive func(ctx context.Context) (release func(), err error)
	// Grace is how long an unneeded object stays after it was last written.
	Grace time.Duration
	// Timeout bounds one command.
	Timeout time.Duration
	Log     *slog.Logger
	Now     func() time.Time
	// Progress is called at each step; may be nil.
	Progress func(string)
}

// packConfig limits the resources of packing.
var packConfig = []string{"pack.threads=1", "pack.windowMemory=128m", "pack.deltaCacheSize=64m", "core.packedRefsTimeout=5000"}

// plan is the result of the work before the lock.
type plan struct {
	rolled  []string       // packs whose objects are in a new pack, without extension
	stores  []*objectStore // the shared one, the internal one if there is one, those of agents
	expired time.Time
	// doubts are agents whose needed objects cannot be determined, and why.
	doubts map[string]string
}

// objectStore is a directory of objects.
type objectStore struct {
	repo   git.Repo // polis' own
	agent  string   // or of this agent
	dir    string
	unused map[string]bool // ids of loose objects that seem unneeded
}

// store is an agent's own store, nil if it has none.
func (p *plan) store(agent string) *objectStore {
	for _, s := range p.stores {
		if agent != "" && s.agent == agent {
			return s
		}
	}
	return nil
}

func (p *plan) unreadable() (out []string) {
	for _, name := range slices.Sorted(maps.Keys(p.doubts)) {
		out = append(out, name+": "+p.doubts[name])
	}
	return out
}

func (p *plan) unused() bool { return p.count() > 0 }

func (p *plan) count() (n int) {
	for _, s := range p.stores {
		n += len(s.unused)
	}
	return n
}

// Run runs every step once. A failed step does not stop the others; the error joins all. DryRun
// changes nothing.
func (m *Maintainer) Run(ctx context.Context, dryRun bool) (rep api.MaintenanceReport, err error) {
	rep.DryRun, rep.StartedAt = dryRun, m.Now().UTC()
	if m.Progress == nil {
		m.Progress = func(string) {}
	}
	if rep.Before, err = m.measure(ctx); err != nil {
		return rep, err
	}
	p := &plan{expired: m.Now().Add(-m.Grace), doubts: map[string]string{}}
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
	if m.Target != "" {
		step("check the target branch", func() error { return m.Repo.Check(ctx, m.Target, true, m.Timeout) })
		if errors.Is(errors.Join(errs...), git.ErrDamaged) {
			// What is removed now may be what it could be mended with.
			rep.After, rep.FinishedAt = rep.Before, m.Now().UTC()
			return rep, errors.Join(errs...)
		}
	}
	if !dryRun {
		step("pack loose objects", func() error { return m.pack(ctx) })
		step("join small packs", func() error { return m.join(ctx, p) })
		if m.Internal.Dir != "" {
			step("pack the trash", func() error { return m.packInternal(ctx) })
		}
	}
	step("find unneeded objects", func() error { return m.findUnused(ctx, p) })
	if dryRun {
		rep.Unused, rep.Unreadable = p.count(), p.unreadable()
		rep.After = rep.Before
		return rep, errors.Join(append(errs, ctx.Err())...)
	}
	step("remove what is not needed", func() error { return m.remove(ctx, p, &rep) })
	step("write the commit-graph", func() error {
		_, err := m.git(ctx, "commit-graph", "write", "--reachable", "--no-progress")
		return err
	})
	rep.Unreadable = p.unreadable()
	after, err := m.measure(context.WithoutCancel(ctx))
	if err == nil {
		rep.After = after
	}
	rep.FinishedAt = m.Now().UTC()
	return rep, errors.Join(append(errs, err, ctx.Err())...)
}

// git runs one command; some start git again for parts of their work.
func (m *Maintainer) git(ctx context.Context, args ...string) ([]byte, error) {
	return m.Repo.Do(ctx, git.Cmd{Args: args, Config: packConfig, Children: args[0] == "verify-pack", Timeout: m.Timeout})
}

// pack puts reachable loose objects into a new pack. It deletes nothing, and so needs no lock.
func (m *Maintainer) pack(ctx context.Context) error {
	refs, err := ids(ctx, m.Repo)
	if err != nil || len(refs) == 0 {
		return err
	}
	_, err = m.Repo.Do(ctx, git.Cmd{Args: []string{"pack-objects", "--revs", "--unpacked", "--incremental", "--local", "--non-empty", "--delta-base-offset", "-q", "objects/pack/pack"},
		Stdin: strings.NewReader(strings.Join(refs, "\n") + "\n"), Config: packConfig, Timeout: m.Timeout})
	return err
}

// packInternal packs saved work. Objects of deleted saves become loose, with the time of their
// pack, and are removed after the grace.
func (m *Maintainer) packInternal(ctx context.Context) error {
	_, err := m.Internal.Do(ctx, git.Cmd{Args: []string{"repack", "-A", "-d", "-l", "-q"}, Config: packConfig, Children: true, Timeout: m.Timeout})
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
