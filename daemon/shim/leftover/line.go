package leftover

import "math"

// maxLine bounds the ancestors of a process that are in its Line.
const maxLine = 32

// Line is a process of the agent's command and its ancestors up to that command, as they were: the process first.
type Line struct {
	Procs []At
	// Whole: the first of Procs is the process that the line was made for.
	Whole bool
}

// At identifies a process: its number is given to another one when it has ended.
type At struct {
	PID   int
	Start uint64 // in ticks since boot
}

// LineOf returns the line of a process. ok is false if the process is not of the command of the agent that runs: it
// outlived its parents, it is a person's or polisd's, or they change too quickly to be read.
func (t *Tracker) LineOf(pid int, of Roots) (l Line, ok bool) {
	if pid <= 0 || of.Main <= 0 {
		return Line{}, false
	}
	l.Whole = true
	for range maxLine {
		p, alive := readProcess(t.root(), pid)
		if !alive || pid == of.Init || pid == of.Parent || !l.follows(p) {
			return Line{}, false
		}
		if guest, _ := t.guestOf(p); guest != 0 {
			return Line{}, false
		}
		l.Procs = append(l.Procs, At{p.pid, p.start})
		if pid == of.Main {
			return l, true
		}
		pid = p.parent
	}
	return Line{}, false
}

// follows reports whether a process can be the parent of the last one of the line, which is not younger than it.
func (l Line) follows(p process) bool {
	return len(l.Procs) == 0 || p.start <= l.Procs[len(l.Procs)-1].Start
}

// Under reports whether a process is the nearest one of a line that is still alive, or descends from that: by processes
// that began at since or later, or, if it is the one that the line was made for, by any. rest is the line of that nearest
// process alone, which never passes to one of its ancestors.
func (t *Tracker) Under(pid int, l Line, since uint64) (rest Line, ok bool) {
	head := -1
	for i, a := range l.Procs {
		if p, alive := readProcess(t.root(), a.PID); alive && p.start == a.Start {
			head = i
			break
		}
	}
	if head < 0 {
		return Line{}, false
	}
	rest = Line{Procs: l.Procs[head : head+1 : head+1], Whole: l.Whole && head == 0}
	child := uint64(math.MaxUint64) // the start of the process that was read last
	for range maxAncestors {
		p, alive := readProcess(t.root(), pid)
		if !alive || p.start > child {
			return Line{}, false
		}
		if guest, _ := t.guestOf(p); guest != 0 {
			return Line{}, false
		}
		if pid == rest.Procs[0].PID {
			return rest, p.start == rest.Procs[0].Start
		}
		if !rest.Whole && p.start < since || p.parent <= 0 {
			return Line{}, false
		}
		child, pid = p.start, p.parent
	}
	return Line{}, false
}
