package policyrecord

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"polis/daemon/api"
	"polis/daemon/history/policylearn"
)

// Record is what an agent used in some of its runs.
type Record struct {
	Runs []api.RecordedRun
	// Last is the newest of the runs.
	Last Header
	// Used is sorted, Denied is what was refused.
	Used, Denied []policylearn.Use
	// Names were resolved, Barred refused. Both are sorted.
	Names, Barred []string
	// Unseen: in some run names were not seen.
	Unseen bool
	// Incomplete are the reasons why there was more than this; none if there was not.
	Incomplete []string
}

// ErrNothing reports that there is no run.
var ErrNothing = errors.New("nothing is recorded")

// Select chooses runs. The zero value chooses all of all agents of the name.
type Select struct {
	// Created, if set, is when the agent was added.
	Created time.Time
	// Run is the number of a run, -1 for the newest; 0 for all.
	Run int
	// Up: the agent runs now, and its newest run has not ended.
	Up bool
}

// Read returns what an agent used.
func (b *Book) Read(agent string, s Select) (Record, error) {
	dir := b.Dir(agent) // files are replaced as a whole, and a line that is not complete yet is left out
	all, err := numbers(dir)
	if err != nil {
		return Record{}, err
	}
	out := &collector{used: policylearn.Set{}, denied: policylearn.Set{MaxUses: maxDenied}, names: map[string]bool{}, barred: map[string]bool{}}
	if s.Run < 0 && len(all) > 0 {
		s.Run = all[len(all)-1]
	}
	for i, n := range all {
		if s.Run > 0 && n != s.Run {
			continue
		}
		r, _, err := readRun(dir, n)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return Record{}, err
		}
		if s.Created.IsZero() || r.head.Created.Equal(s.Created) {
			out.add(r, s.Up && i == len(all)-1)
		}
	}
	if len(out.rec.Runs) == 0 {
		return Record{}, ErrNothing
	}
	return out.record(), nil
}

// collector joins runs.
type collector struct {
	rec           Record
	used, denied  policylearn.Set
	names, barred map[string]bool
}

func (c *collector) add(r *run, live bool) {
	view := api.RecordedRun{Run: r.number, Began: r.head.Began, Role: r.head.Role, Paths: len(r.used.Uses()), Names: len(r.names), Recording: live && r.end == "", Joined: r.head.Runs, Cut: r.cut}
	c.rec.Runs, c.rec.Last = append(c.rec.Runs, view), r.head
	for _, u := range r.used.Uses() {
		c.used.Add(u)
	}
	for _, u := range r.denied.Uses() {
		c.denied.Add(u)
	}
	for n := range r.names {
		c.names[n] = true
	}
	for n := range r.barred {
		c.barred[n] = true
	}
	c.rec.Unseen = c.rec.Unseen || r.head.Unseen
	note := func(bad bool, format string, args ...any) {
		if bad {
			c.rec.Incomplete = append(c.rec.Incomplete, fmt.Sprintf("run %d: ", r.number)+fmt.Sprintf(format, args...))
		}
	}
	note(r.isCoarse(), "there were more paths than are stored one by one; whole directories stand for some")
	note(r.more, "there were more than %d names", MaxNames)
	note(r.dropped > 0, "%s dropped because they came faster than they could be stored", dropped(r.dropped))
	note(r.end == endCut || r.end == "" && !view.Recording, "it ended unexpectedly; what was used right before that may be missing")
}

func dropped(n uint64) string {
	if n == 1 {
		return "1 use was"
	}
	return fmt.Sprintf("%d uses were", n)
}

func (c *collector) record() Record {
	c.rec.Used, c.rec.Denied = c.used.Uses(), c.denied.Uses()
	c.rec.Names, c.rec.Barred = sorted(c.names), sorted(c.barred)
	if c.used.Coarse() || c.denied.Coarse() {
		c.rec.Incomplete = append(c.rec.Incomplete, "the runs together have more paths than are compared one by one; whole directories stand for some")
	}
	return c.rec
}

func sorted(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for n := range set {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}
