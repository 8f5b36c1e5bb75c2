package shim

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/shim/tally"
	"polis/daemon/store/layout"
	"polis/fusefs/view"
)

// openDenials begins to count refusals. What was counted and not reported when the shim ends is reported then, and left for
// polisd in a file with the events that it has not read. Until then the file says that the shim has not ended.
func (s *Shim) openDenials() error {
	s.tally = &tally.Tally{Now: time.Now, Report: s.reportDenial}
	if err := s.leaveEvents(wire.LeftEvents{Unfinished: true}); err != nil {
		return err
	}
	// It is closed after the goroutines, which report the last refusals.
	s.onClose("counts of refusals", func(context.Context) error {
		s.tally.Flush()
		s.reportOmitted()
		return s.leaveEvents(wire.LeftEvents{Events: s.events.Since(0)})
	})
	return nil
}

// leaveEvents writes the file that polisd reads when the shim has ended.
func (s *Shim) leaveEvents(l wire.LeftEvents) error {
	b, err := json.Marshal(l)
	if err == nil {
		err = os.WriteFile(layout.ShimEvents(s.Spec.RunDir), b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("leave the last events for polisd: %w", err)
	}
	return nil
}

// denied records a refusal that is not the view's, and counts it for the breakers.
func (s *Shim) denied(d view.Denial) { s.deniedBy(d, nil) }

// deniedBy is denied. If the refusal is reported at once, complete adds what takes time to find.
func (s *Shim) deniedBy(d view.Denial, complete func(*view.Denial)) {
	s.refusedElsewhere(d)
	s.countDenied(d, complete)
}

// recordDenied records a refusal of a view, which has counted it. The call that was refused waits meanwhile.
func (s *Shim) recordDenied(d view.Denial) { s.countDenied(ofProcess(d), nil) }

// ofProcess has the process of the thread that made a call, and its name. They stay as they are if it has ended.
func ofProcess(d view.Denial) view.Denial {
	if d.Program == "" {
		if pid, program := processOf(d.Pid); pid > 0 {
			d.Pid, d.Program = uint32(pid), program
		}
	}
	return d
}

// countDenied records a refusal for the agent, and notifies the daemon: of this one, or later of several.
func (s *Shim) countDenied(d view.Denial, complete func(*view.Denial)) {
	r, due := s.tally.Add(d)
	if due && complete != nil {
		complete(&r.Denial)
		d.Pid, d.Program = r.Pid, r.Program
	}
	again := s.views.whys.Add(d)
	if !due || again {
		s.inside.touch()
	}
	if !due {
		return
	}
	if !again {
		s.updateWhy()
	}
	s.reportDenial(r)
	s.noteDenied(d)
}

// recordHidden notifies the daemon of the refusal of a hidden name, which the agent does not learn of.
func (s *Shim) recordHidden(d view.Denial) {
	if r, due := s.tally.Add(ofProcess(d)); due {
		s.reportDenial(r)
	}
}

func (s *Shim) reportDenial(r tally.Report) {
	ev := s.denialEvent(r.Denial)
	if r.Others != "" {
		ev.Message = fmt.Sprintf("agent %s: %s of %s and others %s was refused (%s), %d times", s.Spec.Agent, r.Op, api.PrintPath(r.Path), api.PrintPath(r.Others), because(r.Denial), r.Count)
		ev.Data["others"] = api.EncodePath(r.Others)
	}
	s.events.Publish(ev)
}

// denialEvent describes one refusal, or Count equal ones.
func (s *Shim) denialEvent(d view.Denial) api.Event {
	typ := api.EventDenied
	if d.Code == string(api.CodeFileLocked) {
		typ = api.EventLockConflict
	}
	ev := api.Event{Type: typ, Agent: s.Spec.Agent, Time: d.Time, Code: api.Code(d.Code),
		Message: fmt.Sprintf("agent %s: %s of %s was refused (%s)", s.Spec.Agent, d.Op, api.PrintPath(d.Path), because(d)),
		Data:    map[string]any{"op": d.Op, "path": api.EncodePath(d.Path), "holder": d.Holder, "pid": d.Pid, "program": d.Program, "hint": d.Hint, "errno": d.Errno}}
	if rule := d.OwnRule(); rule != "" {
		ev.Data["rule"] = rule
	}
	if name := d.Shown(); name != d.Code {
		ev.Data["shown"] = name
	}
	if d.By != "" {
		ev.Message = fmt.Sprintf("agent %s: %s (%s)", s.Spec.Agent, api.DeniedText(d.By, api.PrintPath(d.Path), d.Reason), d.Code)
		ev.Data["by"], ev.Data["reason"] = d.By, d.Reason
	}
	if d.Program != "" {
		ev.Message += fmt.Sprintf(", asked by %s (pid %d)", api.PrintPath(d.Program), d.Pid)
	}
	if d.Count > 1 {
		ev.Message += fmt.Sprintf(", %d times", d.Count)
		ev.Data["count"] = d.Count
		if !d.First.IsZero() {
			ev.Data["first"] = d.First.UTC().Format(time.RFC3339Nano)
		}
	}
	return ev
}

// because is the name of a refusal, and the rule if one denies the path.
func because(d view.Denial) string {
	if name := d.Shown(); name != d.Code {
		return name + ": " + d.Rule
	}
	return d.Code
}

// omitTime is how long events of questions that are left out are counted before that is reported.
const omitTime = 5 * time.Second

// omitQuestion notes that an event of a question was left out.
func (s *Shim) omitQuestion() {
	if !s.omitting.CompareAndSwap(false, true) {
		return
	}
	s.group.Go(func() error {
		select {
		case <-time.After(omitTime):
		case <-s.ctx.Done(): // the rest is reported at the end
			return nil
		}
		s.omitting.Store(false)
		s.reportOmitted()
		return nil
	})
}

// reportOmitted reports how many events of questions were left out.
func (s *Shim) reportOmitted() {
	if n := s.questionEvents.omitted(); n > 0 {
		s.events.Publish(api.Event{Type: api.EventMissed, Agent: s.Spec.Agent, Data: map[string]any{"missing": n},
			Message: fmt.Sprintf("%d events of questions of agent %s were not kept: there were too many", n, s.Spec.Agent)})
	}
}

// missed records refusals of a kind of which only the number is known: they came faster than they could be read.
func (s *Shim) missed(op string, code api.Code, n int) {
	if n > 0 {
		s.denied(view.Denial{Time: time.Now(), Op: op, Path: "others, not read one by one", Within: "-", Code: string(code), Errno: "EPERM", Count: n,
			Rule: "there were more refusals than are read one by one"})
	}
}
