package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"polis/cmd/internal/bell"
	"polis/daemon/api"
	"polis/internal/pause"
)

// keyStep is how often it is checked, while a question waits for a key, whether the terminal is still this process's.
const keyStep = 200 * time.Millisecond

// questions shows the questions of agents that a command follows, and answers them by key. Without a terminal each is a line
// on standard error.
type questions struct {
	w      *answerScreen
	agents []string
	told   map[string]bool // by a line
	raw    *rawTerminal    // while a question is on the terminal
	jobs   chan os.Signal  // that stop, continue or quit this process, meanwhile
}

// showQuestions begins to show the questions of agents. stop ends it, and waits until the terminal is given back; it can be called again.
func (a *app) showQuestions(ctx context.Context, agents []string) (stop func()) {
	if len(agents) == 0 || a.json || a.quiet {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	c := a.client()
	q := &questions{agents: agents, told: map[string]bool{}, jobs: make(chan os.Signal, 4)}
	q.w = &answerScreen{a: a, c: c, beside: true, away: q.away, skipped: map[string]bool{}, bell: bell.Bell{Getenv: a.getenv}}
	var wg sync.WaitGroup
	wg.Go(func() {
		defer c.Close()
		if err := q.run(ctx); err != nil && ctx.Err() == nil {
			a.complain(err)
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

func (q *questions) run(ctx context.Context) error {
	defer q.giveBack()
	for ctx.Err() == nil {
		all, err := q.open(ctx)
		switch {
		case err != nil && api.CodeOf(err) == api.CodeForbidden:
			return nil // another person answers
		case err != nil && api.CodeOf(err) != api.CodeUnavailable && api.CodeOf(err) != api.CodeTimeout:
			return err
		case err == nil:
			if err := q.update(ctx, all); err != nil {
				return err
			}
		}
		if q.raw == nil {
			pause.For(ctx, watchEvery)
		} else if err := q.await(ctx); err != nil {
			return err
		}
	}
	return nil
}

// open are the open questions of the agents, oldest first.
func (q *questions) open(ctx context.Context) ([]api.Approval, error) {
	all, err := boundedApprovals(ctx, q.w.c, "")
	return slices.DeleteFunc(all, func(v api.Approval) bool { return !slices.Contains(q.agents, v.Agent) }), err
}

// update shows the oldest question, or removes the one that waits no more.
func (q *questions) update(ctx context.Context, all []api.Approval) error {
	if !q.w.a.canAsk() {
		q.giveBack()
		for _, v := range all {
			if !q.told[v.ID] && !q.w.skipped[v.ID] {
				q.told[v.ID] = true
				q.w.a.tell("agent %s asks (%s): %s; polisctl approvals show %s shows it, polisctl approvals approve %s or deny %s answers it", v.Agent, v.Kind, briefWhat(v), v.ID, v.ID, v.ID)
			}
		}
		return nil
	}
	before, now := q.w.shown, q.w.next(all)
	if before != nil && now != nil && before.ID == now.ID {
		return nil
	}
	if before != nil { // the output that was held back comes before the next question
		if !isOpen(all, before.ID) {
			q.w.reportOutcome(ctx, before.ID)
		}
		q.giveBack()
		return nil
	}
	if now == nil {
		return nil
	}
	q.w.a.terminal.hold(q.w.a.stderr)
	raw, err := makeKeys(q.w.a.stdin)
	if err != nil {
		q.w.a.terminal.release()
		return err
	}
	q.raw = raw
	signal.Notify(q.jobs, syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGQUIT)
	return q.w.show(ctx, *now)
}

// away reports whether the terminal is to be given back before anything else is read from it.
func (q *questions) away() bool { return len(q.jobs) > 0 || !q.w.a.canAsk() }

// giveBack ends the time of a question on the terminal, also at a panic.
func (q *questions) giveBack() {
	if q.raw != nil {
		signal.Stop(q.jobs)
		for len(q.jobs) > 0 { // else it would be of the next question
			<-q.jobs
		}
		if q.w.a.canAsk() { // else the terminal has the modes of the shell, and is not this process's
			q.raw.restore()
		}
		q.raw = nil
		q.w.a.terminal.release()
	}
	q.w.shown = nil
}

// await waits for a key, for a while, and carries it out.
func (q *questions) await(ctx context.Context) error {
	for end := time.Now().Add(watchEvery); ctx.Err() == nil && time.Now().Before(end); {
		select {
		case sig := <-q.jobs:
			q.giveBack()
			switch sig {
			case syscall.SIGTSTP: // not every shell sets the modes of the terminal that it gets
				return unix.Kill(unix.Getpid(), unix.SIGSTOP)
			case syscall.SIGQUIT: // it is not caught any more, and ends polisctl as it does without a question
				return unix.Kill(unix.Getpid(), unix.SIGQUIT)
			}
			return nil
		default:
		}
		if !q.w.a.canAsk() {
			q.giveBack()
			return nil
		}
		key, err := readKey(ctx, q.w.a.stdin, keyStep)
		if err != nil {
			return err
		}
		if key == 0 {
			continue
		}
		id := q.w.shown.ID
		if _, err := q.w.handleKey(ctx, key); err != nil {
			return err
		}
		if q.w.shown != nil && !q.w.skipped[id] {
			continue
		}
		q.giveBack()
		pause.For(ctx, keyStep) // as above
		if q.w.skipped[id] {
			q.w.a.tell("question %s waits: polisctl approvals approve %s or deny %s answers it", id, id, id)
		}
		return nil
	}
	return nil
}

// tell writes a line to standard error.
func (a *app) tell(format string, args ...any) {
	p := &page{w: onScreen{&a.terminal, a.stderr}}
	p.line(format, args...)
}

// canAsk reports whether a person can be asked: standard input and error are a terminal, and this process is in its foreground.
func (a *app) canAsk() bool {
	if !isTerminal(a.stdin) || !isTerminal(a.stderr) {
		return false
	}
	group, err := unix.IoctlGetInt(int(a.stdin.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
