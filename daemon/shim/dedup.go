package shim

import (
	"cmp"
	"slices"
	"time"

	"polis/cgroup/sandbox"
)

// quietFor is how long a call that was reported is only counted: after the first report, the
// second and so on. Many programs try a call such as io_uring_setup at every start, and continue
// without it.
var quietFor = []time.Duration{10 * time.Second, time.Minute, 10 * time.Minute, time.Hour}

// maxEntries bounds the table: a program chooses its own name and its arguments.
const maxEntries = 256

// aggregated is the last of count equal calls.
type aggregated struct {
	call  sandbox.RefusedCall
	count int
}

// callKey identifies equal calls.
type callKey struct{ program, call, wanted string }

type entry struct {
	aggregated
	reported time.Time
	times    int // how often it was reported
}

func (e *entry) until() time.Time {
	return e.reported.Add(quietFor[min(e.times, len(quietFor))-1])
}

// dedup aggregates equal calls of a program. It is not safe for concurrent use.
type dedup struct {
	now func() time.Time
	m   map[callKey]*entry
}

// add counts a call and returns what is to be reported.
func (d *dedup) add(c sandbox.RefusedCall) []aggregated {
	now, key := d.now(), callKey{c.Program, c.Call, c.Wanted}
	if e := d.m[key]; e != nil {
		e.call = c
		e.count++
		if now.Before(e.until()) {
			return nil
		}
		return []aggregated{e.report(now)}
	}
	var out []aggregated
	if d.m == nil {
		d.m = map[callKey]*entry{}
	}
	if len(d.m) >= maxEntries {
		out = d.forgetOldest(now)
	}
	e := &entry{aggregated: aggregated{c, 1}}
	d.m[key] = e
	return append(out, e.report(now))
}

// next returns when something that was counted is to be reported; zero for never.
func (d *dedup) next() time.Time {
	var out time.Time
	for _, e := range d.m {
		if at := e.until(); e.count > 0 && (out.IsZero() || at.Before(out)) {
			out = at
		}
	}
	return out
}

// due returns what has been counted long enough, oldest first.
func (d *dedup) due() []aggregated {
	now := d.now()
	var out []aggregated
	for _, e := range d.m {
		if e.count > 0 && !now.Before(e.until()) {
			out = append(out, e.report(now))
		}
	}
	slices.SortFunc(out, func(a, b aggregated) int {
		return cmp.Or(a.call.Time.Compare(b.call.Time), cmp.Compare(a.call.Call, b.call.Call))
	})
	return out
}

// rest returns what was counted, at the end.
func (d *dedup) rest() (out []aggregated) {
	for _, e := range d.m {
		if e.count > 0 {
			out = append(out, e.report(d.now()))
		}
	}
	return out
}

// forgetOldest removes the oldest entry and returns what was counted of it.
func (d *dedup) forgetOldest(now time.Time) []aggregated {
	var oldest callKey
	var e *entry
	for key, x := range d.m {
		if e == nil || x.call.Time.Before(e.call.Time) {
			oldest, e = key, x
		}
	}
	delete(d.m, oldest)
	if e.count == 0 {
		return nil
	}
	return []aggregated{e.report(now)}
}

// report returns what was counted and begins again.
func (e *entry) report(now time.Time) aggregated {
	out := e.aggregated
	e.reported, e.count = now, 0
	e.times++
	return out
}
