package tally

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"polis/fusefs/view"
)

// How many reports are made: at once when something is refused, and of what was counted. Each may be made in a burst, and then
// every so often; and no more than the second bound of them while an agent continues for hours, so that it displaces none of
// its earlier receipts soon.
const (
	burst     = 64
	every     = 50 * time.Millisecond
	longBurst = 800
	longEvery = 2 * time.Second
	tick      = time.Second
	tickBurst = int(tick / every)
)

// Report is one refusal, or several.
type Report struct {
	// Denial is the last one of them. Count is their number, and First the time of the first if there are several.
	view.Denial
	// Others says what they have in common if they are not all of Path; else it is "".
	Others string
}

// Tally counts refusals. Assign the fields, then use it.
type Tally struct {
	// Report is called by Run and Flush with what was counted. It must not block, and not call the Tally.
	Report func(Report)
	Now    func() time.Time

	once sync.Once
	mu   sync.Mutex
	all  map[key]*entry
	// number is how many entries there are of each level, below how many have a key at the next level.
	number [levels]int
	below  map[key]int
	bytes  int
	wake   chan struct{}
	// atOnce bounds the reports when something is refused, later those of what was counted.
	atOnce, later pace
}

// pace bounds reports in a short time and in a long one.
type pace struct{ short, long *rate.Limiter }

func newPace(n int) pace {
	return pace{rate.NewLimiter(rate.Every(every), n), rate.NewLimiter(rate.Every(longEvery), longBurst)}
}

func (p pace) allow(now time.Time) bool { return p.short.AllowN(now, 1) && p.long.AllowN(now, 1) }

func (t *Tally) init() {
	t.once.Do(func() {
		t.all, t.below, t.wake = map[key]*entry{}, map[key]int{}, make(chan struct{}, 1)
		t.atOnce, t.later = newPace(burst), newPace(tickBurst)
	})
}

// Add counts a refusal. If a report is due, the caller makes it: r is it, and has what was counted before.
func (t *Tally) Add(d view.Denial) (r Report, due bool) {
	t.init()
	now := t.Now()
	if d.Time.IsZero() {
		d.Time = now
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entry(keyOf(d), d)
	e.add(d)
	select {
	case t.wake <- struct{}{}:
	default:
	}
	if due = !now.Before(e.due()) && t.atOnce.allow(now); due {
		r = e.take(now)
	}
	return r, due
}

// entry returns where a refusal is counted: as finely as there is room. t.mu is held.
func (t *Tally) entry(k key, d view.Denial) *entry {
	cost := entryCost + len(d.Path) + len(d.Rule) + len(d.Hint) + len(d.Program) + len(d.Holder)
	for level := exact; ; level++ {
		at := k.at(level)
		e := t.all[at]
		if e == nil && (level == code || t.number[level] < room[level] && t.below[k.at(level+1)] < share[level] && (level == rule || t.bytes+cost <= maxBytes)) {
			e = &entry{key: at, cost: cost}
			t.all[at] = e
			t.count(e, 1)
		}
		if e != nil {
			return e
		}
	}
}

func (t *Tally) count(e *entry, n int) {
	t.number[e.key.level] += n
	if e.key.level <= parent {
		t.bytes += n * e.cost
	}
	if e.key.level < code {
		up := e.key.at(e.key.level + 1)
		if t.below[up] += n; t.below[up] == 0 {
			delete(t.below, up)
		}
	}
}

// sweep removes the entries that are over, and returns when the next one is due or over; zero if there is none. t.mu is held.
func (t *Tally) sweep(now time.Time) (next time.Time) {
	for k, e := range t.all {
		if e.over(now) {
			delete(t.all, k)
			t.count(e, -1)
			continue
		}
		at := e.end()
		if e.count > 0 {
			at = e.due()
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// Run reports what was counted, until ctx ends. It sleeps while there is nothing.
func (t *Tally) Run(ctx context.Context) {
	t.init()
	for {
		select {
		case <-t.wake:
		case <-ctx.Done():
			return
		}
		for wait := tick; wait > 0; {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
			wait = t.step()
		}
	}
}

// step reports what is due, as much as may be reported, and returns how long to wait for the next step; 0 if there is
// nothing to wait for.
func (t *Tally) step() (wait time.Duration) {
	now := t.Now()
	t.mu.Lock()
	var out []Report
	for _, e := range t.turns(func(e *entry) bool { return e.count > 0 && !now.Before(e.due()) }) {
		if !t.later.allow(now) {
			break
		}
		out = append(out, e.take(now))
	}
	if next := t.sweep(now); !next.IsZero() {
		wait = max(next.Sub(now), tick)
	}
	t.mu.Unlock()
	for _, r := range out {
		t.Report(r)
	}
	return wait
}

// turns orders entries: in turn one of each directory, that which was reported longest ago first. t.mu is held.
func (t *Tally) turns(due func(*entry) bool) []*entry {
	groups := map[key][]*entry{}
	last := map[key]time.Time{}
	for _, e := range t.all {
		g := e.key
		if g.level < parent {
			g = g.at(parent)
		}
		if e.reported.After(last[g]) {
			last[g] = e.reported
		}
		if due(e) {
			groups[g] = append(groups[g], e)
		}
	}
	order := make([]key, 0, len(groups))
	for g, list := range groups {
		slices.SortFunc(list, func(a, b *entry) int {
			return cmp.Or(cmp.Compare(min(a.times, 1), min(b.times, 1)), a.first.Compare(b.first), cmp.Compare(a.key.path, b.key.path))
		})
		order = append(order, g)
	}
	slices.SortFunc(order, func(a, b key) int {
		return cmp.Or(last[a].Compare(last[b]), groups[a][0].first.Compare(groups[b][0].first))
	})
	var out []*entry
	for i := 0; len(order) > 0; i++ {
		order = slices.DeleteFunc(order, func(g key) bool { return i >= len(groups[g]) })
		for _, g := range order {
			out = append(out, groups[g][i])
		}
	}
	return out
}

// Flush reports everything that was counted and not reported, at the end.
func (t *Tally) Flush() {
	t.init()
	now := t.Now()
	t.mu.Lock()
	var out []Report
	for _, e := range t.turns(func(e *entry) bool { return e.count > 0 }) {
		out = append(out, e.take(now))
	}
	t.mu.Unlock()
	for _, r := range out {
		t.Report(r)
	}
}
