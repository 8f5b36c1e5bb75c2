package shim

import (
	"cmp"
	"slices"
	"time"

	"polis/cgroup/sandbox"
)

// foldFor is for how long a call that was told of is counted only, after the
// first time, the second and so on. Many programs try something at every start,
// such as io_uring, and go on without.
var foldFor = []time.Duration{10 * time.Second, time.Minute, 10 * time.Minute, time.Hour}

// maxFolds bounds what is remembered: a program can choose its own name and what
// it asks for.
const maxFolds = 256

// folded is a call as it is told of: the last of so many.
type folded struct {
	call  sandbox.RefusedCall
	count int
}

// foldKey is what makes two calls the same.
type foldKey struct{ program, call, wanted string }

type fold struct {
	folded
	told  time.Time
	times int // told so often
}

func (f *fold) until() time.Time {
	return f.told.Add(foldFor[min(f.times, len(foldFor))-1])
}

// folds puts the same calls of a program into one. It is for one goroutine.
type folds struct {
	now func() time.Time
	m   map[foldKey]*fold
}

// add notes a call, and returns what should be told.
func (f *folds) add(c sandbox.RefusedCall) []folded {
	now, key := f.now(), foldKey{c.Program, c.Call, c.Wanted}
	if e := f.m[key]; e != nil {
		e.call = c
		e.count++
		if now.Before(e.until()) {
			return nil
		}
		return []folded{e.tell(now)}
	}
	var out []folded
	if f.m == nil {
		f.m = map[foldKey]*fold{}
	}
	if len(f.m) >= maxFolds {
		out = f.forgetOldest(now)
	}
	e := &fold{folded: folded{c, 1}}
	f.m[key] = e
	return append(out, e.tell(now))
}

// next is when something that was counted is to be told of; zero for never.
func (f *folds) next() time.Time {
	var out time.Time
	for _, e := range f.m {
		if at := e.until(); e.count > 0 && (out.IsZero() || at.Before(out)) {
			out = at
		}
	}
	return out
}

// due returns what was counted for long enough, oldest first.
func (f *folds) due() []folded {
	now := f.now()
	var out []folded
	for _, e := range f.m {
		if e.count > 0 && !now.Before(e.until()) {
			out = append(out, e.tell(now))
		}
	}
	slices.SortFunc(out, func(a, b folded) int {
		return cmp.Or(a.call.Time.Compare(b.call.Time), cmp.Compare(a.call.Call, b.call.Call))
	})
	return out
}

// forgetOldest makes room, and returns what was counted of what is forgotten.
func (f *folds) forgetOldest(now time.Time) []folded {
	var oldest foldKey
	var e *fold
	for key, x := range f.m {
		if e == nil || x.call.Time.Before(e.call.Time) {
			oldest, e = key, x
		}
	}
	delete(f.m, oldest)
	if e.count == 0 {
		return nil
	}
	return []folded{e.tell(now)}
}

// tell takes what was counted.
func (f *fold) tell(now time.Time) folded {
	out := f.folded
	f.told, f.count = now, 0
	f.times++
	return out
}
