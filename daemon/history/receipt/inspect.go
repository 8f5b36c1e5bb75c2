package receipt

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"polis/daemon/api"
)

// maxShown bounds what Read returns.
const maxShown = 10000

// Visit gets an entry of a log: the agent's, or "" for that of the workspace.
type Visit func(log string, r *Receipt) error

// Each calls visit with every entry of the logs for which want returns true, that of the workspace
// first, each oldest first, and compares each entry with its hash. A log ends at its first entry that
// does not match; the first of all is broken.
func (s *Store) Each(ctx context.Context, want func(log string) bool, visit Visit) (broken *api.BrokenReceipt, err error) {
	names, err := s.names()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if !want(name) {
			continue
		}
		b, err := s.each(ctx, name, visit)
		if err != nil {
			return nil, err
		}
		if broken == nil {
			broken = b
		}
	}
	return broken, nil
}

func (s *Store) each(ctx context.Context, name string, visit Visit) (*api.BrokenReceipt, error) {
	s.mu.Lock()
	l, err := s.log(name)
	if err == nil {
		s.reads[name]++
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	defer s.release(name, l, name != "" && !s.Lives(name))
	return l.Each(ctx, func(r *Receipt) error { return visit(name, r) })
}

// release ends a read. It closes the log of a removed agent that was only read.
func (s *Store) release(name string, l *Log, removed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reads[name]--; s.reads[name] > 0 {
		return
	}
	delete(s.reads, name)
	if removed && s.open[name] == l && l.untouched() {
		delete(s.open, name)
		l.abandon()
	}
}

// All wants every log.
func All(string) bool { return true }

// Only wants the log of an agent, and that of the workspace; with "" every log.
func Only(agent string) func(string) bool {
	return func(log string) bool { return agent == "" || log == "" || log == agent }
}

// Read returns the last entries that match, oldest first.
func (s *Store) Read(ctx context.Context, req api.ReceiptsRequest) (out api.Receipts, err error) {
	limit := req.Limit
	if limit <= 0 {
		limit = 1000
	}
	limit = min(limit, maxShown)
	out.Workspace, out.Receipts = s.Workspace, []api.Receipt{}
	out.Broken, err = s.Each(ctx, Only(req.Agent), func(log string, r *Receipt) error {
		if !matches(req, r) {
			return nil
		}
		if out.Receipts = append(out.Receipts, r.Of(log)); len(out.Receipts) >= 2*limit+100 {
			out.Receipts, out.More = last(out.Receipts, limit, out.More)
		}
		return nil
	})
	out.Receipts, out.More = last(out.Receipts, limit, out.More)
	return out, err
}

// last sorts receipts by time and returns the last ones.
func last(all []api.Receipt, limit int, more bool) ([]api.Receipt, bool) {
	slices.SortStableFunc(all, func(a, b api.Receipt) int { return a.Time.Compare(b.Time) })
	if len(all) <= limit {
		return all, more
	}
	return slices.Clone(all[len(all)-limit:]), true
}

func matches(req api.ReceiptsRequest, r *Receipt) bool {
	switch {
	case req.Agent != "" && r.Agent != req.Agent && (r.Agent != "" || !strings.HasPrefix(r.Type, "receipts:")):
		return false
	case strings.HasSuffix(req.Type, ":"):
		return strings.HasPrefix(r.Type, req.Type) && !r.Time.Before(req.Since)
	case req.Type != "" && r.Type != req.Type:
		return false
	}
	return !r.Time.Before(req.Since)
}

// Verify compares every entry of all logs with its hash, and the last entries of the agents' logs with
// what the log of the workspace has about them. anchor is the hash of an entry of the workspace's log
// that was noted earlier; "" for none.
func (s *Store) Verify(ctx context.Context, anchor string) (api.ReceiptsCheck, error) {
	out := api.ReceiptsCheck{Workspace: s.Workspace, Logs: []api.LogCheck{}}
	if err := s.heads(); err != nil {
		s.Log.Warn("heads of receipts not recorded", "workspace", s.Workspace, "err", err)
	}
	names, err := s.names()
	if err != nil {
		return out, err
	}
	heads := noted{}
	for _, name := range names {
		c, err := s.verify(ctx, name, anchor, heads)
		if err != nil {
			return out, err
		}
		out.Logs, out.Entries = append(out.Logs, c), out.Entries+c.Entries
		if out.Broken == nil {
			out.Broken = c.Broken
		}
	}
	for _, name := range slices.Sorted(maps.Keys(heads)) {
		if out.Broken == nil && !slices.Contains(names, name) && len(heads[name]) > 0 {
			out.Broken = &api.BrokenReceipt{Log: name, Seq: slices.Min(slices.Collect(maps.Keys(heads[name]))), Why: "the log is missing, and no entry says that it was removed"}
		}
	}
	out.Intact = out.Broken == nil
	return out, nil
}

// verify verifies one log. heads are those that the log of the workspace has, which comes first.
func (s *Store) verify(ctx context.Context, name, anchor string, heads noted) (api.LogCheck, error) {
	c := api.LogCheck{Log: name}
	found := name != "" || anchor == ""
	want := heads[name]
	var wrong uint64
	broken, err := s.each(ctx, name, func(_ string, r *Receipt) error {
		if c.First == 0 {
			c.First = r.Seq
			maps.DeleteFunc(want, func(seq uint64, _ string) bool { return seq < r.Seq }) // removed in order
		}
		c.Entries++
		c.Last, c.Head = r.Seq, r.Hash
		if name == "" {
			found = found || r.Hash == anchor || r.Prev == anchor
			heads.add(r)
		} else if hash, ok := want[r.Seq]; ok {
			if hash != r.Hash && wrong == 0 {
				wrong = r.Seq
			}
			delete(want, r.Seq)
		}
		return nil
	})
	switch {
	case err != nil || broken != nil:
	case !found:
		broken = &api.BrokenReceipt{Why: fmt.Sprintf("no entry has the hash %s: the log is another one, or that entry was removed", api.Shorten(anchor, 64))}
	case wrong > 0:
		broken = &api.BrokenReceipt{Log: name, Seq: wrong, Why: "the log of the workspace has another hash of this entry"}
	case len(want) > 0:
		broken = &api.BrokenReceipt{Log: name, Seq: c.Last + 1, Why: fmt.Sprintf("entries up to %d are missing", slices.Max(slices.Collect(maps.Keys(want))))}
	}
	c.Broken = broken
	return c, err
}

// noted are the hashes that the log of the workspace has of entries of the agents' logs, by their
// numbers.
type noted map[string]map[uint64]string

// add takes the heads of an entry of the workspace's log. The first one of an entry counts.
func (n noted) add(r *Receipt) {
	switch r.Type {
	case api.ReceiptHeads:
		var d struct {
			Heads map[string]Head `json:"heads"`
		}
		if json.Unmarshal(r.Data, &d) == nil {
			for name, h := range d.Heads {
				if n[name] == nil {
					n[name] = map[uint64]string{}
				}
				if _, ok := n[name][h.Seq]; !ok {
					n[name][h.Seq] = h.Hash
				}
			}
		}
	case api.ReceiptDropped:
		var d struct {
			Log string `json:"log"`
		}
		if json.Unmarshal(r.Data, &d) == nil && d.Log != "" {
			delete(n, d.Log)
		}
	}
}
