package models

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/setting"
	"polis/daemon/api/wire"
	"polis/daemon/gateway/budget"
	"polis/daemon/gateway/ledger"
	"polis/daemon/gateway/raise"
)

// maxReaders bounds the ledgers that a Book has in memory.
const maxReaders = 256

// Book reads the ledgers of agents, in the directories of their logs. The zero value is ready; it is safe for
// concurrent use.
type Book struct {
	mu      sync.Mutex
	readers map[string]*ledger.Reader // by directory
}

// reader returns the reader of a ledger, which knows what it has read before.
func (b *Book) reader(dir string) *ledger.Reader {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.readers[dir]; r != nil {
		return r
	}
	if b.readers == nil || len(b.readers) >= maxReaders {
		b.readers = map[string]*ledger.Reader{}
	}
	r := &ledger.Reader{Dir: dir}
	b.readers[dir] = r
	return r
}

// Rows calls fn for each row of the ledger in dir, in no order.
func (b *Book) Rows(dir string, fn func(ledger.Row)) error { return b.reader(dir).Each(fn) }

// Agent returns what the agent with its logs in dir used; false if it used nothing. task is the ID of its
// present task, or "".
func (b *Book) Agent(dir string, bounds setting.ModelBudget, task string, now time.Time) (u api.ModelUse, any bool, err error) {
	all, used, day := sum{}, budget.Used{}, ledger.Day(now)
	err = b.Rows(dir, func(r ledger.Row) {
		all.add(r)
		if r.Day == day {
			used.Day.Add(r.Counts)
		}
		if task != "" && r.Task == task {
			used.Task.Add(r.Counts)
		}
	})
	u = all.use(filepath.Base(dir))
	raised, rerr := raise.Read(dir)
	err = errors.Join(err, rerr)
	if st := budget.Check(raised.Over(bounds, task, day), used, task != ""); st.Bound != "" {
		u.Budget = &api.ModelBudgetUse{Percent: st.Percent, Bound: st.Bound, Text: st.Text}
	}
	return u, all.Requests > 0, err
}

// Relative is the ledger of an agent of a family; see agent.Relative.
type Relative struct {
	Dir, Task string
	InTask    bool
}

// Family returns how far the agents of a family together have used a budget. The first of them is the family's
// first agent: what a person raised of its budget counts.
func (b *Book) Family(bounds setting.ModelBudget, family []Relative, now time.Time) (budget.State, error) {
	used, day, task, errs := budget.Used{}, ledger.Day(now), "", []error(nil)
	for i, f := range family {
		if i == 0 {
			task = f.Task
			raised, err := raise.Read(f.Dir)
			errs, bounds = append(errs, err), raised.Over(bounds, task, day)
		}
		errs = append(errs, b.Rows(f.Dir, func(r ledger.Row) {
			if r.Day == day {
				used.Day.Add(r.Counts)
			}
			if f.InTask || f.Task != "" && r.Task == f.Task {
				used.Task.Add(r.Counts)
			}
		}))
	}
	return budget.Check(bounds, used, task != ""), errors.Join(errs...)
}

// Day returns what the agent with its logs in dir used on a day; open: with the requests that have begun, as they count if
// its shim was killed.
func (b *Book) Day(dir, day string, open bool) (u wire.ShareUse, err error) {
	add := func(r ledger.Row) {
		if r.Day == day {
			u.Tokens, u.Micros = ledger.Plus(u.Tokens, r.Total()), ledger.Plus(u.Micros, r.Micros)
		}
	}
	if open {
		return u, b.reader(dir).EachOpen(add)
	}
	return u, b.Rows(dir, add)
}

// Tasks returns what the tasks of the agent with its logs in dir used, by their IDs. The oldest tasks of an
// agent with many can be missing.
func (b *Book) Tasks(dir string) (map[string]api.ModelUse, error) {
	sums := map[string]*sum{}
	err := b.Rows(dir, func(r ledger.Row) {
		if r.Task == "" {
			return
		}
		if sums[r.Task] == nil {
			sums[r.Task] = &sum{}
		}
		sums[r.Task].add(r)
	})
	out := make(map[string]api.ModelUse, len(sums))
	for id, s := range sums {
		out[id] = s.use(id)
	}
	return out, err
}

// Usage sums what the agents with logs in the directories used, by one of api.UsageBy, since a day
// (YYYY-MM-DD in UTC; "": ever). The logs of an agent outlive it, and so do its counts. A ledger that
// cannot be read is left out and named by the error. roles are those of agents, by the directories of their logs.
func (b *Book) Usage(dirs []string, by, since string, roles map[string]string) ([]api.ModelUse, error) {
	if !slices.Contains(api.UsageBy, by) {
		return nil, api.Errorf(api.CodeBadRequest, "by = %q: must be one of %q", api.Shorten(by, 32), api.UsageBy)
	}
	if since != "" {
		if _, err := time.Parse(time.DateOnly, since); err != nil {
			return nil, api.Errorf(api.CodeBadRequest, "since = %q: must be a day, YYYY-MM-DD", api.Shorten(since, 32))
		}
	}
	sums, errs := map[string]*sum{}, []error(nil)
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		for _, e := range entries {
			if !e.IsDir() || api.CheckName(e.Name()) != nil {
				continue
			}
			err := b.Rows(filepath.Join(dir, e.Name()), func(r ledger.Row) {
				if r.Day < since {
					return
				}
				key := map[string]string{"agent": e.Name(), "task": r.Task, "model": r.Model, "day": r.Day, "role": roles[filepath.Join(dir, e.Name())]}[by]
				if sums[key] == nil {
					sums[key] = &sum{}
				}
				sums[key].add(r)
			})
			if err != nil {
				errs = append(errs, fmt.Errorf("agent %s: %w", e.Name(), err))
			}
		}
	}
	out := make([]api.ModelUse, 0, len(sums))
	for _, key := range slices.Sorted(maps.Keys(sums)) {
		out = append(out, sums[key].use(key))
	}
	if by == "agent" || by == "model" || by == "task" || by == "role" { // those that use most first
		slices.SortStableFunc(out, func(a, b api.ModelUse) int { return cmp.Compare(b.Tokens(), a.Tokens()) })
	}
	return out, errors.Join(errs...)
}

// sum is the sum of rows, whose costs can be in several currencies.
type sum struct {
	ledger.Counts
	cost map[string]int64 // millionths, of the currencies in which something has a price
}

func (s *sum) add(r ledger.Row) {
	s.Add(r.Counts)
	if r.Priced == 0 && r.Micros == 0 {
		return
	}
	if s.cost == nil {
		s.cost = map[string]int64{}
	}
	s.cost[r.Currency] = ledger.Plus(s.cost[r.Currency], r.Micros)
}

func (s *sum) use(key string) api.ModelUse {
	c := s.Counts
	u := api.ModelUse{Key: key, Requests: c.Requests, Errors: c.Errors, Refused: c.Refused, Retries: c.Retries, Cut: c.Cut, Estimated: c.Estimated,
		InputTokens: c.Input, OutputTokens: c.Output, CacheReadTokens: c.CacheRead, CacheWriteTokens: c.CacheWrite, Unpriced: c.Unpriced}
	if c.Answers > 0 {
		u.FirstTokenMS = c.FirstMicros / c.Answers / 1000
	}
	for currency, n := range s.cost {
		if u.Cost == nil {
			u.Cost = map[string]float64{}
		}
		u.Cost[currency] = float64(n) / 1e6
	}
	return u
}
