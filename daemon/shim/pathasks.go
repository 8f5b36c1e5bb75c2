package shim

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/daemon/rules/approval"
	"polis/daemon/shim/leftover"
	"polis/fusefs/view"
)

// answerHold is how long an answer for once holds for the process that asked: one write is
// several system calls (open, truncate, rename), and a program tries again what was refused.
const answerHold = 10 * time.Second

// maxHeldAnswers bounds the answers that hold.
const maxHeldAnswers = 128

// pathAsker asks a person about paths that a rule "ask" of the policy names (view.Asker).
type pathAsker struct {
	s *Shim
	// origin returns where a process comes from; nil: every call is the agent's.
	origin func(pid int) (leftover.Origin, int)

	// lineOf and under are those of the agent's processes (package leftover).
	lineOf func(pid int) (leftover.Line, bool)
	under  func(pid int, l leftover.Line, since uint64) (leftover.Line, bool)

	mu        sync.Mutex
	held      map[pathCall]heldAnswer
	unaskedOf map[int]unasked // by the command
}

// pathCall is a path that a process reads or writes.
type pathCall struct {
	kind api.ApprovalKind
	path string
	pid  int // the process's, not the thread's
}

type heldAnswer struct {
	verdict view.Verdict
	until   time.Time
}

// Ask is part of view.Asker. The paths are those that the kernel resolved.
func (p *pathAsker) Ask(ctx context.Context, r view.Request) (view.Verdict, error) {
	kind := api.ApprovalRead
	if r.Write {
		kind = api.ApprovalWrite
	}
	pid, program := processOf(r.Pid)
	var open []string
	for _, path := range r.Paths {
		if v, ok := p.known(pathCall{kind, path, pid}); !ok {
			open = append(open, path)
		} else if !v.Allow {
			return v, nil
		}
	}
	if len(open) == 0 {
		return view.Verdict{Allow: true}, nil
	}
	if v := p.unasked(cmp.Or(pid, int(r.Pid)), open[0]); v != nil {
		return *v, nil
	}
	if r.Content && len(open) == 1 && p.covered(kind, open[0], pid) {
		return view.Verdict{Allow: true}, nil
	}
	// No path has a NUL: a name with a line break must not read, or be remembered, as two names.
	q := approval.Question{Kind: kind, Text: strings.Join(open, "\x00"), Note: fmt.Sprintf("system call: %s; rule: %s", r.Op, r.Rule), PID: pid, Program: program}
	if len(open) > 1 {
		q.Note += fmt.Sprintf("; %d paths, with a NUL between them", len(open))
	}
	id, a, err := p.s.ask(ctx, q, usualAnswerWait)
	if err != nil {
		return view.Verdict{Reason: err.Error()}, err
	}
	v := view.Verdict{Allow: a.Verdict == api.VerdictApprove, Reason: a.Reason, By: denier(a)}
	if id == "" {
		v.Reason = strings.TrimSpace("a remembered answer denies it " + a.Reason)
	}
	if !v.Allow {
		p.s.covers.over(open)
	}
	if !a.At.IsZero() { // not one that never came
		for _, path := range open {
			p.hold(pathCall{kind, path, pid}, v)
		}
	}
	return v, nil
}

// known returns the answer that still holds for a call, or that a rule gives.
func (p *pathAsker) known(c pathCall) (view.Verdict, bool) {
	p.mu.Lock()
	h, ok := p.held[c]
	p.mu.Unlock()
	if ok && time.Now().Before(h.until) {
		return h.verdict, true
	}
	d := p.s.toolRules.Load().Decide(approval.Question{Kind: c.kind, Text: c.path})
	if d.Verdict == api.VerdictAsk {
		return view.Verdict{}, false
	}
	return view.Verdict{Allow: d.Verdict == api.VerdictApprove, Reason: d.Reason, By: d.Source}, true
}

func (p *pathAsker) hold(c pathCall, v view.Verdict) {
	if c.pid == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for k, h := range p.held {
		if now.After(h.until) {
			delete(p.held, k)
		}
	}
	if len(p.held) < maxHeldAnswers {
		p.held[c] = heldAnswer{v, now.Add(answerHold)}
	}
}

// processOf is the process of a thread, and its name, which it gave itself. The threads of many runtimes have other names.
func processOf(tid uint32) (pid int, name string) {
	if tid == 0 {
		return 0, ""
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		return 0, ""
	}
	for line := range bytes.Lines(status) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "Tgid:\t"); ok {
			if pid, err = strconv.Atoi(value); err != nil {
				return 0, ""
			}
			return pid, comm(pid)
		}
	}
	return 0, ""
}
