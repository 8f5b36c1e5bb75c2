package patrol

import (
	"time"

	"polis/daemon/api"
	"polis/daemon/patrol/verdict"
)

// Patrol knows since when each agent has done nothing. The zero value is not usable; see [New].
type Patrol struct {
	tracks map[string]*track
	// last is when it looked last, elapsed the time between two looks by the monotonic clock.
	last    time.Time
	elapsed func(from, to time.Time) time.Duration
}

// New returns a patrol that has seen nothing.
func New() *Patrol {
	return &Patrol{tracks: map[string]*track{}, elapsed: func(from, to time.Time) time.Duration { return to.Sub(from) }}
}

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

// Suspect is an agent that may be a finding. Whether it waits for something is not known yet:
// asking is dear, and few are suspects.
type Suspect struct {
	Observed
	Class api.PatrolClass
	Since time.Time
	// Evidence is what a stalled or spinning one is judged by.
	Evidence []string
	key      key
}

// View is what was seen of an agent, for people.
type View struct {
	Observed
	Quiet, Unchanged time.Duration
	// Waits is what it waits for or works on, as far as that is known of every agent.
	Waits string
	// Moving says that it makes progress again after it was stalled, Changing that it changes things again
	// after it spun: not once, but for a while.
	Moving, Changing bool
}

// recovered reports whether an agent that hung does not any more.
func (v View) recovered(class api.PatrolClass) bool {
	if class == api.PatrolSpinning {
		return v.Changing
	}
	return v.Moving
}

// Look takes in the observations of one cycle, which are all agents' that there are, and returns
// the suspects and what was seen of each agent. The monotonic time of now must not go back. After the
// wall clock was set, every agent counts as seen for the first time.
func (p *Patrol) Look(now time.Time, all []Observed, lim Limits) (suspects []Suspect, views []View) {
	next, stepped := make(map[string]*track, len(all)), p.stepped(now)
	for _, o := range all {
		k := keyOf(o)
		t := p.tracks[o.Agent]
		switch {
		case t == nil || t.key != k:
			t = newTrack(k, now, o)
		case stepped:
			t = t.restarted(now, o)
		}
		next[o.Agent] = t
		if o.Err != nil {
			// What is not known is no evidence. The counters continue from the last sample.
			views = append(views, View{Observed: o})
			continue
		}
		t.take(now, o, lim)
		f := t.facts(now, o)
		v := verdict.Judge(now, f, lim.Limits)
		t.recover(f, v, lim)
		views = append(views, View{Observed: o, Quiet: now.Sub(f.Progress()), Unchanged: now.Sub(f.Change()), Waits: v.Waits,
			Moving: t.moving.Over(lim.Stalled), Changing: t.changing.Over(lim.Spinning)})
		if s, ok := t.judge(now, o, lim, v); ok {
			suspects = append(suspects, s)
		}
	}
	p.tracks, p.last = next, now
	return suspects, views
}

// Confirm judges a suspect again by a newer observation. It returns it as it is now, and whether it is a suspect
// of the same class.
func (p *Patrol) Confirm(now time.Time, s Suspect, o Observed, lim Limits) (Suspect, bool) {
	t := p.tracks[o.Agent]
	if t == nil || t.key != keyOf(o) || s.key != t.key || !s.Same(o) || p.stepped(now) {
		return s, false
	}
	t.take(now, o, lim)
	again, ok := t.judge(now, o, lim, verdict.Judge(now, t.facts(now, o), lim.Limits))
	return again, ok && again.Class == s.Class
}

// judge returns what may be wrong with an agent.
func (t *track) judge(now time.Time, o Observed, lim Limits, v verdict.Verdict) (Suspect, bool) {
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
	ended := t.past(now, o.EndedAt)
	over := func(since time.Time) bool { return lim.Done > 0 && now.Sub(since) >= lim.Done }
	switch {
	case o.Ended != "" && over(ended) && over(t.changed):
		s.Class, s.Since = api.PatrolTaskClosed, ended
		if o.Ended == api.EndDone || o.Ended == api.EndComplete {
			s.Class = api.PatrolStuckInDone
		}
	default:
		s.Class, s.Since, s.Evidence = v.Class, v.Since, v.Evidence
	}
	return s, s.Class != ""
}

// Same reports whether a suspect is what it was: the same incarnation, and nothing happened since.
// It is called before something is done about it.
func (s Suspect) Same(o Observed) bool {
	if o.Err != nil || keyOf(o) != s.key || o.Status != s.Status || o.Shim != s.Shim || o.Program != s.Program {
		return false
	}
	unchanged := o.Sample.Writes == s.Sample.Writes && o.Sample.Stored == s.Sample.Stored && o.Sample.Refs == s.Sample.Refs && o.Sample.Ports == s.Sample.Ports
	switch s.Class {
	case api.PatrolStalled:
		return unchanged && o.Sample.Reads == s.Sample.Reads && sameProgress(s.Observed, o)
	case api.PatrolSpinning, api.PatrolStuckInDone, api.PatrolTaskClosed:
		return unchanged
	}
	return true
}

// sameProgress reports whether an agent has printed nothing new, taken no step, sent no request
// and got no answer.
func sameProgress(a, b Observed) bool {
	if a.Progress == nil || b.Progress == nil {
		return a.Progress == b.Progress && a.Sample.Output == b.Sample.Output
	}
	p, q := a.Progress, b.Progress
	return p.New.Equal(q.New) && p.Step.Equal(q.Step) && p.Heard.Equal(q.Heard) && p.WaitsSince.Equal(q.WaitsSince)
}
