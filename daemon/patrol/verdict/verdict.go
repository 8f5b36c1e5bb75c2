package verdict

import (
	"fmt"
	"slices"
	"time"

	"polis/daemon/api"
)

const (
	// BusyCPU is the share of a processor above which a program counts as computing, also on a machine with
	// more to do than processors. The timers and the spinner of a program that waits take less.
	BusyCPU = 0.2
	// CallCPU is the same while a tool call is open: a build must not count as hung because many others run.
	CallCPU = 0.05
	// patience is how many times longer than other programs one with an open tool call may compute
	// without a change: a build does.
	patience = 4
	// lastBusy is for how long after it computed a program counts as computing.
	lastBusy = 2 * time.Minute
)

// Limits say after which time a state is a finding. 0 is never.
type Limits struct {
	Stalled  time.Duration // no progress
	Spinning time.Duration // it works and changes nothing
	// Model is for an agent that waits for its model, or has an open connection to the outside. At least
	// Stalled counts. If Stalled is 0, it is never, too.
	Model time.Duration
}

// Waiting is the longest time without progress of an agent that waits for its model; 0 is never.
func (l Limits) Waiting() time.Duration {
	if l.Model == 0 || l.Stalled == 0 {
		return 0
	}
	return max(l.Model, l.Stalled)
}

// Call is a tool call of the program that has not ended.
type Call struct {
	What  string
	Since time.Time
}

// Model is what the model gateway knows of the requests of an agent.
type Model struct {
	// Open is how many requests are open.
	Open int
	// Since is when the first request was sent of those that had no answer yet. A request that fails is
	// sent again and keeps it. Zero: none waits.
	Since time.Time
	// Heard is when the last part of an answer came.
	Heard time.Time
}

// Facts are what is known of an agent's program. A zero time is never.
type Facts struct {
	// Task is true if the program works on a task that has not ended. Without one it is used by a person.
	Task bool
	// Prompt is true if it reads the keys of a terminal: a person may let it wait for the next one as long
	// as they like.
	Prompt bool
	// Seen is when the program was observed first. What happened before it does not count.
	Seen time.Time
	// Steps is true if the program reports steps. Step is when it last reported one, or the end of a call,
	// NewStep when it last began a call that it had not made before.
	Steps         bool
	Step, NewStep time.Time
	// Output is when it last printed something that repeats nothing. Repeated is how many bytes it printed since
	// its last progress, Printed how many since its last change.
	Output            time.Time
	Repeated, Printed int64
	// Changed is when it last changed a file, a ref or a port.
	Changed time.Time
	// Used is when it last read files, or read and sent more than programs that wait do.
	Used time.Time
	// Busy is when it last computed with BusyCPU, or CallCPU. Idle is the processor time that it used since its last progress,
	// CPU that since its last change.
	Busy      time.Time
	Idle, CPU time.Duration
	// Waited is when it last waited for a person or another agent: it could do nothing then.
	Waited time.Time
	// Call is the last open tool call, Calls how many there are.
	Call  *Call
	Calls int
	Model Model
}

// Verdict is what an agent is.
type Verdict struct {
	// Class is api.PatrolStalled, api.PatrolSpinning, or "".
	Class api.PatrolClass
	// Since is when the state began that Class names.
	Since time.Time
	// Waits is what it waits for or works on, in words; "" if that is not known.
	Waits string
	// Evidence is what Class is judged by, one fact each.
	Evidence []string
}

// Progress is when the agent last did anything that is no repetition.
func (f Facts) Progress() time.Time {
	return last(f.Seen, f.Step, f.Output, f.Changed, f.Used, f.Busy, f.Model.Heard)
}

// Change is when the agent last did something new that a task is there for.
func (f Facts) Change() time.Time {
	if !f.Task {
		return last(f.Seen, f.Changed, f.NewStep, f.Waited, f.Used)
	}
	return last(f.Seen, f.Changed, f.NewStep, f.Waited)
}

func last(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// Judge decides what an agent is.
func Judge(now time.Time, f Facts, lim Limits) Verdict {
	progress, change := f.Progress(), f.Change()
	quiet := last(progress, f.Waited) // it could not make progress while it waited
	waits := f.waits(now)
	switch {
	case f.stalls(now, lim, quiet):
		return Verdict{Class: api.PatrolStalled, Since: quiet, Waits: waits, Evidence: f.stalledEvidence(now, progress)}
	case f.spins(now, lim, progress, change):
		return Verdict{Class: api.PatrolSpinning, Since: change, Waits: waits, Evidence: f.spinningEvidence(now, change)}
	}
	return Verdict{Waits: waits}
}

func over(now, since time.Time, most time.Duration) bool { return most > 0 && now.Sub(since) >= most }

func (f Facts) waitsForModel() bool { return !f.Model.Since.IsZero() }

// computes reports whether the agent has computed just now.
func (f Facts) computes(now time.Time) bool { return !f.Busy.IsZero() && now.Sub(f.Busy) < lastBusy }

func (f Facts) stalls(now time.Time, lim Limits, quiet time.Time) bool {
	switch {
	case f.waitsForModel():
		return over(now, last(quiet, f.Model.Since), lim.Waiting())
	case f.Prompt && !f.Task:
		return false
	}
	return over(now, quiet, lim.Stalled)
}

func (f Facts) spins(now time.Time, lim Limits, progress, change time.Time) bool {
	most := lim.Spinning
	if f.Call != nil {
		most *= patience
	}
	if !over(now, change, most) || now.Sub(progress) >= lim.Spinning/2 {
		return false
	}
	if float64(f.CPU) >= BusyCPU*float64(now.Sub(change)) {
		return true
	}
	return (f.Task || !f.Prompt) && (f.Output.After(change) || f.Step.After(change) || f.Printed > 0 && last(f.Used, f.Model.Heard).After(change))
}

// waits returns what the agent waits for or works on.
func (f Facts) waits(now time.Time) string {
	switch {
	case f.waitsForModel():
		return "its model " + f.modelText(now)
	case f.Call != nil:
		text := f.callText(now)
		if f.computes(now) {
			text += ", which computes"
		}
		return text
	}
	return ""
}

func (f Facts) modelText(now time.Time) string {
	if f.Model.Open == 0 {
		return fmt.Sprintf("since %s: its last request failed", ago(now, f.Model.Since))
	}
	return fmt.Sprintf("since %s: %s", ago(now, f.Model.Since), api.Count(f.Model.Open, "open request"))
}

func (f Facts) callText(now time.Time) string {
	text := fmt.Sprintf("the call %s, open since %s", f.Call.What, ago(now, f.Call.Since))
	if f.Calls > 1 {
		text += fmt.Sprintf(" (the last of %d)", f.Calls)
	}
	return text
}

func ago(now, since time.Time) string { return max(now.Sub(since), 0).Round(time.Second).String() }

func (f Facts) stalledEvidence(now, progress time.Time) []string {
	since := ago(now, progress)
	var out []string
	if f.waitsForModel() {
		out = append(out, "it waits for its model "+f.modelText(now)+", and no part of an answer came")
	}
	if f.Call != nil {
		out = append(out, f.callText(now))
	}
	if f.Steps {
		out = append(out, "no step for "+ago(now, last(f.Seen, f.Step)))
	}
	if f.Waited.After(progress) {
		out = append(out, "it waited for a person or another agent until "+ago(now, f.Waited)+" ago")
	}
	if f.Repeated > 0 {
		out = append(out, fmt.Sprintf("its output repeats: %s printed for %s, and nothing new", api.Count(int(f.Repeated), "byte"), since))
	} else {
		out = append(out, "no output for "+since)
	}
	return append(out, fmt.Sprintf("no change of a file, no input and output that counts as work, %s of processor time for %s", f.Idle.Round(10*time.Millisecond), since))
}

func (f Facts) spinningEvidence(now, change time.Time) []string {
	out := []string{"it changed no file for " + ago(now, last(f.Seen, f.Changed))}
	if f.Steps {
		out = append(out, "it began no call that it had not made before for "+ago(now, last(f.Seen, f.NewStep)))
	}
	if f.Call != nil {
		out = append(out, f.callText(now))
	}
	return append(out, fmt.Sprintf("it used %s of processor time and printed %s meanwhile", f.CPU.Round(time.Second), api.Count(int(f.Printed), "byte")))
}
