package receipt

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"polis/daemon/api"
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
	// Began is when polisd began to record: what agents have reclaimed since then is recorded after it.
	Began time.Time

	mu     sync.Mutex
	open   map[string]*Log
	noted  map[string]string // the head of each agent's log that the workspace's log has
	reads  map[string]int    // how often a log is being read
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

// AgentDir is the directory of an agent's log. What else is in it is removed with the log, when the
// receipts of a removed agent are.
func (s *Store) AgentDir(name string) string { return s.dir(name) }

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
	if name == "" {
		l.Began = s.Began
	}
	if err := l.Open(); err != nil {
		return nil, err
	}
	if s.open == nil {
		s.open, s.noted, s.reads = map[string]*Log{}, map[string]string{}, map[string]int{}
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
	if err = l.Append(all...); errors.Is(err, errClosed) { // by Rest
		s.mu.Lock()
		l, err = s.log(log)
		s.mu.Unlock()
		if err == nil {
			err = l.Append(all...)
		}
	}
	return err
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
			errs = append(errs, l.end("polisd ends"))
		}
	}
	return errors.Join(errs...)
}
