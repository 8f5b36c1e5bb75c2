package tally

import (
	"time"

	"polis/fusefs/view"
)

// The levels at which refusals are counted, the finest first.
const (
	exact  = iota // one path
	parent        // what is in one directory
	rule          // what one rule refuses
	code          // what has one code
	levels
)

// room is how many entries there are of a level, and share how many of them have the same key at the next level. There are
// as many codes as the program has.
var (
	room  = [levels]int{1024, 512, 256, 1 << 20}
	share = [levels]int{64, 128, 128, 1 << 20}
)

const (
	// maxBytes bounds the texts of the entries of the two finest levels.
	maxBytes = 1 << 20
	// entryCost is what an entry has beside its texts, in bytes.
	entryCost = 512
)

// key is what the refusals of an entry have in common. Fields beyond its level are empty.
type key struct {
	view.Class
	path, program, holder string
	level                 int
}

func keyOf(d view.Denial) key {
	return key{Class: d.Class(), path: d.Path, program: d.Program, holder: d.Holder}
}

// at returns the key at a level, which is that of k or a coarser one.
func (k key) at(level int) key {
	k.level = level
	if level >= parent {
		k.path, k.program, k.holder = "", "", ""
	}
	if level >= rule {
		k.Parent = ""
	}
	if level >= code {
		k.Op, k.Rule = "", ""
	}
	return k
}

// entry has the refusals of one key.
type entry struct {
	key  key
	last view.Denial
	// count and first are of those that are not reported; mixed: they are not all of last.Path.
	count int
	first time.Time
	mixed bool
	// reported is when the last report was made, and times how many were.
	reported time.Time
	times    int
	cost     int
}

// quiet is how long refusals are only counted after a report: the longer the more reports there were.
func (e *entry) quiet() time.Duration { return time.Second << min(max(e.times-1, 0), 6) }

// due returns when the next report is to be made.
func (e *entry) due() time.Time {
	if e.times == 0 {
		return e.first
	}
	return e.reported.Add(e.quiet())
}

// over reports whether an entry has nothing to report, and was quiet for so long that a new refusal is news.
func (e *entry) over(now time.Time) bool { return e.count == 0 && !now.Before(e.end()) }

func (e *entry) end() time.Time { return e.last.Time.Add(2 * e.quiet()) }

func (e *entry) add(d view.Denial) {
	if e.count == 0 {
		e.first, e.mixed = d.Time, false
	} else if d.Path != e.last.Path {
		e.mixed = true
	}
	e.last = d
	e.count += max(d.Count, 1)
}

// take returns the report, and begins to count again.
func (e *entry) take(now time.Time) Report {
	r := Report{Denial: e.last}
	if r.Count = e.count; e.count > 1 {
		r.First = e.first
	}
	if e.mixed {
		r.Others = e.others()
	}
	e.count, e.reported = 0, now
	e.times++
	return r
}

// others is what the refusals have in common, for people.
func (e *entry) others() string {
	switch e.key.level {
	case parent:
		return "in " + e.key.Parent
	case rule:
		if e.key.Rule != "" {
			return "by the same rule"
		}
		return "of the same kind"
	}
	return "with the same code"
}
