package patrol

import (
	"time"

	"polis/daemon/api"
)

// Patrol knows since when each agent has done nothing. The zero value is not usable; see [New].
type Patrol struct {
	tracks map[string]*track
}

// New returns a patrol that has seen nothing.
func New() *Patrol { return &Patrol{tracks: map[string]*track{}} }

// key identifies one run of an agent's program: a finding about it does not hold for the next.
type key struct {
	workspace  string
	created    int64
	generation uint64
	pid        int
	began      uint64
	task       string
}

func keyOf(o Observed) key {
	return key{o.Workspace, o.Created.UnixNano(), o.Generation, o.PID, o.Began, o.Task}
}

// track is what was seen of one incarnation.
type track struct {
	key key
	// began is when it was observed first, at when last.
	began, at time.Time
	last      Sample
	// active is when it was last seen to do anything, changed when it last changed anything.
	active, changed time.Time
	// cpu and output are the counters at changed.
	cpu    time.Duration
	output int64
	// dead counts the consecutive cycles in which its shim or program was gone.
	dead int
	// gone is when that was seen first.
	gone time.Time
	net  netWindow
}

// netWindow adds up the traffic of a minute, so that single packets do not count.
type netWindow struct {
	from time.Time
	at   uint64
}

// Suspect is an agent that may be a finding. Whether it waits for something is not known yet:
// asking is dear, and few are suspects.
type Suspect struct {
	Observed
	Class api.PatrolClass
	Since time.Time
	// CPU and Output are what it used and printed since.
	CPU    time.Duration
	Output int64
	key    key
}

// View is what was seen of an agent, for people.
type View struct {
	Observed
	Quiet, Unchanged time.Duration
	// Seen is for how long this incarnation has been observed.
	Seen time.Duration
}

// Look takes in the observations of one cycle, which are all agents' that there are, and returns
// the suspects and what was seen of each agent. now must not go back.
func (p *Patrol) Look(now time.Time, all []Observed, lim Limits) (suspects []Suspect, views []View) {
	next := make(map[string]*track, len(all))
	for _, o := range all {
		k := keyOf(o)
		t := p.tracks[o.Agent]
		if t == nil || t.key != k {
			t = &track{key: k, began: now, at: now, last: o.Sample, active: now, changed: now, cpu: o.Sample.CPU, output: o.Sample.Output, net: netWindow{now, o.Sample.Net}}
		}
		next[o.Agent] = t
		if o.Err != nil {
			// What is not known is no evidence. The counters continue from the last sample.
			views = append(views, View{Observed: o})
			continue
		}
		t.take(now, o)
		views = append(views, View{Observed: o, Quiet: now.Sub(t.active), Unchanged: now.Sub(t.changed), Seen: now.Sub(t.began)})
		if s, ok := t.judge(now, o, lim); ok {
			suspects = append(suspects, s)
		}
	}
	p.tracks = next
	return suspects, views
}

// take compares a sample with the last one.
func (t *track) take(now time.Time, o Observed) {
	elapsed := now.Sub(t.at)
	if elapsed <= 0 {
		return
	}
	s, l := o.Sample, t.last
	cpu := float64(s.CPU-l.CPU) / float64(elapsed)
	changed := s.Writes != l.Writes || s.Stored != l.Stored || s.Refs != l.Refs || s.Ports != l.Ports
	sent := false
	if now.Sub(t.net.from) >= time.Minute || s.Net < t.net.at || s.Net-t.net.at > quietNet {
		sent = s.Net < t.net.at || s.Net-t.net.at > quietNet
		t.net = netWindow{now, s.Net}
	}
	if changed || sent || cpu >= quietCPU || s.Output != l.Output || s.Reads != l.Reads || s.Disk != l.Disk || s.Calls != l.Calls {
		t.active = now
	}
	// A task is there to change something. What has none is used by a person, who may only ask.
	if changed || o.Task == "" && (sent || s.Reads != l.Reads) {
		t.changed, t.cpu, t.output = now, s.CPU, s.Output
	}
	t.at, t.last = now, s
}

// judge returns what may be wrong with an agent.
func (t *track) judge(now time.Time, o Observed, lim Limits) (Suspect, bool) {
	s := Suspect{Observed: o, key: t.key}
	lives := o.Status == api.StatusRunning || o.Status == api.StatusIdle
	switch {
	case lives && !o.Shim:
		s.Class = api.PatrolSessionDead
	case o.Status == api.StatusRunning && !o.Program:
		s.Class = api.PatrolAgentDead
	}
	if s.Class != "" {
		if t.dead++; t.dead == 1 {
			t.gone = now
		}
		s.Since = t.gone
		return s, t.dead >= looks
	}
	t.dead = 0
	if o.Status != api.StatusRunning {
		return s, false
	}
	s.CPU, s.Output = o.Sample.CPU-t.cpu, o.Sample.Output-t.output
	over := func(since time.Time, most time.Duration) bool { return most > 0 && now.Sub(since) >= most }
	switch {
	case o.Ended != "" && over(o.EndedAt, lim.Done) && over(t.changed, lim.Done):
		s.Class, s.Since = api.PatrolTaskClosed, o.EndedAt
		if o.Ended == api.EndDone || o.Ended == api.EndComplete {
			s.Class = api.PatrolStuckInDone
		}
	case over(t.active, lim.Stalled):
		s.Class, s.Since = api.PatrolStalled, t.active
	case over(t.changed, lim.Spinning) && now.Sub(t.active) < lim.Spinning/2 && t.works(now, s):
		s.Class, s.Since = api.PatrolSpinning, t.changed
	default:
		return s, false
	}
	return s, true
}

// works reports whether the agent computed or printed since it last changed something.
func (t *track) works(now time.Time, s Suspect) bool {
	return s.Output > 0 || float64(s.CPU)/float64(now.Sub(t.changed)) >= busyCPU
}

// Same reports whether a suspect is what it was: the same incarnation, and nothing happened since.
// It is called before something is done about it.
func (s Suspect) Same(o Observed) bool {
	if o.Err != nil || keyOf(o) != s.key || o.Status != s.Status || o.Shim != s.Shim || o.Program != s.Program {
		return false
	}
	switch s.Class {
	case api.PatrolStalled:
		return o.Sample.Output == s.Sample.Output && o.Sample.Writes == s.Sample.Writes && o.Sample.Reads == s.Sample.Reads && o.Sample.Disk == s.Sample.Disk && o.Sample.Calls == s.Sample.Calls
	case api.PatrolSpinning, api.PatrolStuckInDone, api.PatrolTaskClosed:
		return o.Sample.Writes == s.Sample.Writes && o.Sample.Stored == s.Sample.Stored && o.Sample.Refs == s.Sample.Refs && o.Sample.Ports == s.Sample.Ports
	}
	return true
}
