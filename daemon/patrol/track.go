package patrol

import (
	"time"

	"polis/daemon/patrol/verdict"
)

// track is what was seen of one incarnation.
type track struct {
	key key
	// began is when it was observed first, at when last.
	began, at time.Time
	last      Observed
	// Since when it did not change anything, read files or exceed a window, compute, and print, if its shim
	// does not report what is new.
	changed, used, busy, output time.Time
	// waited is when its shim last reported that it waits.
	waited time.Time
	// progress and change are its last ones, and what it had used and printed then.
	progress, change mark
	// dead counts the consecutive cycles in which its shim or program was gone.
	dead int
	// gone is when that was seen first.
	gone         time.Time
	net, io, cpu window
	// moving and changing see whether it recovers.
	moving, changing verdict.Recovery
	// ahead are the times that were in the future when they were observed.
	ahead map[int64]bool
}

// mark is a moment, and the counters when it was seen.
type mark struct {
	at      time.Time
	cpu     time.Duration
	printed int64
}

func newTrack(k key, now time.Time, o Observed) *track {
	m := mark{now, o.Sample.CPU, printed(o)}
	return &track{key: k, began: now, at: now, last: o, changed: now, progress: m, change: m,
		net: window{now, int64(o.Sample.Net)}, io: window{now, ioBytes(o)}, cpu: window{now, int64(o.Sample.CPU)}}
}

// restarted returns the track of the same incarnation after the wall clock was set: no time of before can be compared with
// those after.
func (t *track) restarted(now time.Time, o Observed) *track {
	if o.Err != nil {
		o = t.last
	}
	n := newTrack(t.key, now, o)
	n.dead, n.gone = t.dead, t.gone
	return n
}

// past returns a time of the wall clock that a shim or a record has. One in the future is of before the clock was set
// back: the agent was seen again since, and by that time it counts, also when the clock has caught up.
func (t *track) past(now, at time.Time) time.Time {
	if at.After(now.Add(maxStep)) {
		if t.ahead == nil {
			t.ahead = map[int64]bool{}
		}
		t.ahead[at.UnixNano()] = true
	}
	if t.ahead[at.UnixNano()] {
		return t.began
	}
	return at
}

// window adds up a counter, so that the little that a waiting program does does not count.
type window struct {
	from time.Time
	at   int64
}

// over reports whether the counter rose by more than most in span since the window began.
// The next window then begins.
func (w *window) over(now time.Time, v int64, span time.Duration, most int64) bool {
	if d := now.Sub(w.from); d > span { // the last observation is older
		most = int64(float64(most) * float64(d) / float64(span))
	}
	over := v-w.at > most
	if over || v < w.at || now.Sub(w.from) >= span {
		*w = window{now, v}
	}
	return over
}

func printed(o Observed) int64 {
	if o.Progress != nil {
		return o.Progress.Printed
	}
	return o.Sample.Output
}

// ioBytes are the bytes that its processes read and wrote besides what it prints, which one of them can have
// read from another.
func ioBytes(o Observed) int64 { return int64(o.Sample.Calls+o.Sample.Disk) - 2*printed(o) }

// waitsIdle reports whether the program reports its calls, and none is open: what it reads and stores then is
// its own housekeeping.
func waitsIdle(o Observed) bool {
	return o.Progress != nil && o.Progress.Steps && o.Progress.Calls == 0
}

// take compares a sample with the last one.
func (t *track) take(now time.Time, o Observed, lim Limits) {
	if !now.After(t.at) {
		return
	}
	s, l := o.Sample, t.last.Sample
	switch {
	case o.Waits.IsZero() && !t.last.Waits.IsZero():
		t.waited = now // until some time since the last report
	case o.Waits.After(t.waited) && !o.Waits.After(now): // a report can be minutes old
		t.waited = o.Waits
	}
	idle := waitsIdle(o)
	if s.Writes != l.Writes || s.Refs != l.Refs || s.Ports != l.Ports || s.Stored != l.Stored && !idle {
		t.changed = now
	}
	span := time.Minute
	if lim.Stalled > 0 {
		span = min(span, lim.Stalled/4)
	}
	sent, moved := t.net.over(now, int64(s.Net), span, quietNet), t.io.over(now, ioBytes(o), span, quietIO)
	// Of a program that reports when a call begins, that is so however much it is: copilot starts gh four times a second
	// to see whether it can log in. Others can be at work in a call, if they move more than those that wait.
	moved = moved && !(idle && o.Progress.Begins)
	if sent || moved || s.Reads != l.Reads && !idle {
		t.used = now
	}
	share := verdict.BusyCPU
	if o.Progress != nil && o.Progress.Calls > 0 {
		share = verdict.CallCPU
	}
	if t.cpu.over(now, int64(s.CPU), span, int64(share*float64(span))) {
		t.busy = now
	}
	if o.Progress == nil && s.Output != l.Output {
		t.output = now
	}
	t.at, t.last = now, o
}

// facts are what the verdict is made from.
func (t *track) facts(now time.Time, o Observed) verdict.Facts {
	past := func(at time.Time) time.Time { return t.past(now, at) }
	f := verdict.Facts{Task: o.Task != "" && o.Ended == "", Seen: t.began, Output: t.output, Changed: t.changed, Used: t.used, Busy: t.busy, Waited: t.waited}
	if p := o.Progress; p != nil {
		f.Prompt, f.Steps, f.Step, f.NewStep, f.Output = p.Keys, p.Steps, past(p.Step), past(p.NewCall), past(p.New)
		f.Model = verdict.Model{Open: p.Requests, Since: past(p.WaitsSince), Heard: past(p.Heard)}
		if p.Calls > 0 {
			f.Call, f.Calls = &verdict.Call{What: p.Call, Since: past(p.CallSince)}, p.Calls
		}
	}
	if at := f.Progress(); at.After(t.progress.at) {
		t.progress = mark{at, o.Sample.CPU, printed(o)}
	}
	if at := f.Change(); at.After(t.change.at) {
		t.change = mark{at, o.Sample.CPU, printed(o)}
	}
	f.Repeated, f.Idle = printed(o)-t.progress.printed, o.Sample.CPU-t.progress.cpu
	f.Printed, f.CPU = printed(o)-t.change.printed, o.Sample.CPU-t.change.cpu
	return f
}

// recover notes the progress of an agent, and that it is found.
func (t *track) recover(f verdict.Facts, v verdict.Verdict, lim Limits) {
	note := func(r *verdict.Recovery, at time.Time, limit time.Duration) {
		if v.Class != "" {
			r.Found(at)
		}
		if at.After(t.began) {
			r.Progress(at, limit)
		}
	}
	note(&t.moving, f.Progress(), lim.Stalled)
	note(&t.changing, f.Change(), lim.Spinning)
}
