package maintain

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"polis/daemon/git"
)

// spare removes from the unused objects those that are needed after all.
func (m *Maintainer) spare(ctx context.Context, p *plan) error {
	shared := p.stores[0]
	refs, err := ids(ctx, m.Repo)
	if err != nil {
		return err
	}
	with, all := m.Repo, refs
	if m.Internal.Dir != "" {
		kept, err := ids(ctx, m.Internal)
		if err != nil {
			return err
		}
		// The internal repository borrows from this one.
		with.Alternates = []string{m.Internal.ObjectDir()}
		all = append(all[:len(all):len(all)], kept...)
		if err := m.reach(ctx, m.Internal, kept, nil, p.stores[1]); err != nil {
			return err
		}
	}
	if err := m.reach(ctx, with, all, nil, shared); err != nil {
		return err
	}
	agents, err := m.agents()
	if err != nil {
		return err
	}
	// An agent writes the logs of its branches, like its other files.
	for _, a := range append([]agent{{git: filepath.Join(m.Repo.Dir, "logs"), notFound: true}}, agents...) {
		own := p.store(a.name)
		why := m.spareNamed(ctx, a, refs, shared, own)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if why == nil {
			continue
		}
		// What it may need is unknown: everything stays.
		shared.unused = nil
		if own != nil {
			own.unused = nil
		}
		m.doubt(p, a, why)
	}
	return nil
}

// doubt records an agent whose needed objects cannot be determined.
func (m *Maintainer) doubt(p *plan, a agent, why error) {
	name := a.name
	if name == "" {
		name = "the logs of branches"
	}
	if p.doubts[name] == "" {
		m.Log.Warn("cannot determine which objects are needed: none of them is removed", "agent", a.name, "op", "maintenance", "path", a.git, "err", why)
	}
	p.doubts[name] = why.Error()
}

// spareNamed spares what an agent's files reach.
func (m *Maintainer) spareNamed(ctx context.Context, a agent, refs []string, stores ...*objectStore) error {
	hash := 20
	if len(refs) > 0 {
		hash = len(refs[0]) / 2
	}
	named, err := a.named(ctx, hash)
	if err != nil {
		return err
	}
	repo := m.repo(a)
	there, err := m.present(ctx, repo, named)
	if err != nil {
		return err
	}
	return m.reach(ctx, repo, there, refs, stores...)
}

// reach spares, in all stores, what the objects from reach and those in not do not.
func (m *Maintainer) reach(ctx context.Context, repo git.Repo, from, not []string, stores ...*objectStore) error {
	stores = slices.DeleteFunc(slices.Clone(stores), func(s *objectStore) bool { return s == nil || len(s.unused) == 0 })
	if len(from) == 0 || len(stores) == 0 {
		return nil
	}
	var in bytes.Buffer
	for _, id := range from {
		fmt.Fprintln(&in, id)
	}
	for _, id := range not {
		fmt.Fprintf(&in, "^%s\n", id)
	}
	return m.lines(ctx, repo, git.Cmd{Args: []string{"rev-list", "--objects", "--stdin"}, Stdin: &in}, func(line string) {
		id, _, _ := strings.Cut(line, " ")
		for _, s := range stores {
			delete(s.unused, id)
		}
	})
}

// ids are the objects that the refs of a repository name.
func ids(ctx context.Context, r git.Repo) ([]string, error) {
	refs, err := r.Refs(ctx)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Values(refs)), nil
}
