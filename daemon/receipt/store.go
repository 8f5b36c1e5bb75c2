package receipt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/fusefs/fdtree"
)

// Limits bound the receipts of a workspace.
type Limits struct {
	// MaxBytes bounds the log of the workspace, and those of all removed agents together.
	MaxBytes int64
	// AgentBytes bounds the log of one agent.
	AgentBytes int64
	// Keep is how long the log of a removed agent is kept.
	Keep time.Duration
}

// Store has the logs of one workspace. Assign the fields, then use it; Close ends it. It is safe for
// concurrent use.
type Store struct {
	// Dir is made if it is missing; only root may search it.
	Dir       string
	Workspace string
	Limits    func() Limits
	// Lives reports whether an agent exists.
	Lives func(agent string) bool
	// Cut is called when a log was opened after a crash that left an incomplete entry.
	Cut func(log string, bytes int64)
	Log *slog.Logger
	Now func() time.Time

	mu     sync.Mutex
	open   map[string]*Log
	noted  map[string]string // the head of each agent's log that the workspace's log has
	closed bool
}

const (
	mainDir   = "workspace"
	agentsDir = "agents"
)

func (s *Store) dir(name string) string {
	if name == "" {
		return filepath.Join(s.Dir, mainDir)
	}
	return filepath.Join(s.Dir, agentsDir, name)
}

// log returns an open log. s.mu is held.
func (s *Store) log(name string) (*Log, error) {
	if s.closed {
		return nil, errClosed
	}
	if l := s.open[name]; l != nil {
		return l, nil
	}
	if !validLog(name) {
		return nil, fmt.Errorf("open the receipts: %q is no name of an agent", name)
	}
	l := &Log{Dir: s.dir(name), Name: name, Workspace: s.Workspace, Log: s.Log, Now: s.Now, MaxBytes: func() int64 {
		if name == "" {
			return s.Limits().MaxBytes
		}
		return s.Limits().AgentBytes
	}}
	if err := l.Open(); err != nil {
		return nil, err
	}
	if s.open == nil {
		s.open, s.noted = map[string]*Log{}, map[string]string{}
	}
	s.open[name] = l
	if s.Cut != nil && l.cut > 0 {
		s.Cut(name, l.cut)
	}
	return l, nil
}

// validLog reports whether a name can be that of a log: agents' names are such names.
func validLog(name string) bool { return name == "" || api.CheckName(name) == nil }

// Append adds entries to the log of an agent, or with "" to that of the workspace, all or none, and
// returns when they are on the disk.
func (s *Store) Append(log string, all ...Entry) error {
	s.mu.Lock()
	l, err := s.log(log)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return l.Append(all...)
}

// names returns the logs that exist: that of the workspace first, then those of agents in order.
func (s *Store) names() ([]string, error) {
	out := []string{""}
	entries, err := os.ReadDir(filepath.Join(s.Dir, agentsDir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list the receipts: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() && validLog(e.Name()) {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// Head is the last entry of a log.
type Head struct {
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"`
}

// heads records the last entries of the agents' logs in that of the workspace, if they have changed.
func (s *Store) heads() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := map[string]Head{}
	for name, l := range s.open {
		if seq, hash := l.Head(); name != "" && seq > 0 && s.noted[name] != hash {
			changed[name] = Head{Seq: seq, Hash: hash}
		}
	}
	if len(changed) == 0 {
		return nil
	}
	l, err := s.log("")
	if err != nil {
		return err
	}
	for _, part := range parts(changed) {
		if err := l.Append(Entry{Type: api.ReceiptHeads, Message: "the last entries of the logs of agents", Data: raw(map[string]any{"heads": part})}); err != nil {
			return err
		}
	}
	for name, h := range changed {
		s.noted[name] = h.Hash
	}
	return nil
}

// headsOfEntry is how many heads one entry has at most: they must not exceed maxData.
const headsOfEntry = 200

func parts(all map[string]Head) []map[string]Head {
	var out []map[string]Head
	for name, h := range all {
		if len(out) == 0 || len(out[len(out)-1]) >= headsOfEntry {
			out = append(out, map[string]Head{})
		}
		out[len(out)-1][name] = h
	}
	return out
}

// Close records the end and closes the logs.
func (s *Store) Close() error {
	errs := []error{s.endAgents(), s.heads()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, l := range s.open {
		errs = append(errs, l.Close())
	}
	s.open = nil
	return errors.Join(errs...)
}

// endAgents records the end in the agents' logs, which stay open for heads.
func (s *Store) endAgents() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for name, l := range s.open {
		if name != "" {
			errs = append(errs, l.end())
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
