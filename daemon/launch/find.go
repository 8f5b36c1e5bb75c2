package launch

import (
	"context"
	"errors"
	"os"
	"slices"
)

// List returns the names of the agents that have a directory below the run directory, and of those
// whose shim runs without one.
func (s *Shims) List(context.Context) ([]string, error) {
	out, err := s.launcher.Names(s.Run.Agents())
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(s.Run.Agents())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Living returns the names of the agents whose shim runs.
func (s *Shims) Living(ctx context.Context) ([]string, error) {
	names, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, n := range names {
		alive, err := s.launcher.Alive(ctx, n, s.Run.Agent(n))
		if err != nil {
			return nil, err
		}
		if alive {
			out = append(out, n)
		}
	}
	return out, nil
}

// Lives reports whether the shim of an agent runs, or may run.
func (s *Shims) Lives(ctx context.Context, name string) bool {
	alive, err := s.launcher.Alive(ctx, name, s.Run.Agent(name))
	return alive || err != nil
}
