package receipt

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"time"

	"polis/daemon/api"
	"polis/fusefs/fdtree"
)

// Rest closes the logs of removed agents, which would occupy descriptors, when their ends and heads are recorded. A later
// entry opens its log again.
func (s *Store) Rest() error {
	s.mu.Lock()
	names := slices.Collect(maps.Keys(s.open))
	s.mu.Unlock()
	names = slices.DeleteFunc(names, func(name string) bool { return name == "" || s.Lives(name) })
	if len(names) == 0 {
		return nil
	}
	if err := s.endOf(names); err != nil {
		return err
	}
	if err := s.heads(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		l := s.open[name]
		if l == nil || s.reads[name] > 0 {
			continue
		}
		if _, hash := l.Head(); s.noted[name] == hash || l.untouched() { // else something was added meanwhile
			delete(s.open, name)
			delete(s.noted, name)
			l.abandon()
		}
	}
	return nil
}

func (s *Store) endOf(names []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, name := range names {
		if l := s.open[name]; l != nil {
			errs = append(errs, l.end("the agent was removed"))
		}
	}
	return errors.Join(errs...)
}

// removedLog is the log of an agent that was removed.
type removedLog struct {
	name  string
	bytes int64
	last  time.Time
}

// Sweep removes logs of removed agents that are too old, or together too large, the oldest first.
func (s *Store) Sweep(ctx context.Context) error {
	names, err := s.names()
	if err != nil {
		return err
	}
	var all []removedLog
	var total int64
	for _, name := range names[1:] {
		if s.Lives(name) {
			continue
		}
		r := removedLog{name: name}
		if r.bytes, r.last, err = measure(s.dir(name)); err != nil {
			return err
		}
		all, total = append(all, r), total+r.bytes
	}
	slices.SortFunc(all, func(a, b removedLog) int { return a.last.Compare(b.last) })
	limits := s.Limits()
	for _, r := range all {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if total <= limits.MaxBytes && s.Now().Sub(r.last) <= limits.Keep {
			continue
		}
		if err := s.drop(ctx, r.name); err != nil {
			return err
		}
		total -= r.bytes
	}
	return nil
}

// drop removes the log of a removed agent, after an entry about it.
func (s *Store) drop(ctx context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, err := s.log(name)
	if err != nil {
		return err
	}
	seq, hash := l.Head()
	w, err := s.log("")
	if err != nil {
		return err
	}
	if err := w.Append(Entry{Type: api.ReceiptDropped, Agent: name, Message: "the receipts of agent " + name + " were removed: they were too old, or too many",
		Data: raw(map[string]any{"log": name, "through": seq, "hash": hash})}); err != nil {
		return err
	}
	delete(s.open, name)
	delete(s.noted, name)
	l.abandon()
	return fdtree.RemoveAll(ctx, s.dir(name))
}

// measure returns the size of a log, and when it was last written.
func measure(dir string) (bytes int64, last time.Time, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, last, err
	}
	for _, e := range entries {
		fi, err := e.Info()
		if err != nil {
			return 0, last, err
		}
		bytes += fi.Size()
		if fi.ModTime().After(last) {
			last = fi.ModTime()
		}
	}
	return bytes, last, nil
}
