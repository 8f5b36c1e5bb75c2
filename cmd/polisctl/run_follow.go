package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
	"polis/internal/pause"
)

const (
	// taskPoll is how long one request waits for a task's result.
	taskPoll = 30 * time.Second
	// turnPoll is how often a task that waits for its turn is read.
	turnPoll = 500 * time.Millisecond
	// lastOutput is how long the rest of the output of a task that has ended may take.
	lastOutput = 3 * time.Second
)

// followTask waits for the result of a task, and shows its output if live.
func (a *app) followTask(cmd *cobra.Command, t api.Task, live bool) error {
	c := a.client()
	defer c.Close()
	id := t.ID
	ctx, over, stop := a.followContext(cmd, following{
		what: "task " + id, hint: "it continues: polisctl tasks show " + id,
		question: "Stop task " + id + "? y stops it",
		left:     "task " + id + " continues; polisctl tasks show " + id + " shows its result",
		end:      func(ctx context.Context) error { _, err := c.CancelTask(ctx, id); return err },
		agents:   []string{t.Agent},
	})
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	t, err := a.awaitTurn(ctx, c, t)
	if err != nil {
		return a.leftTask(ctx, err)
	}
	var out *taskOutput
	if live {
		out = &taskOutput{}
		wg.Go(func() { out.run(ctx, a, c, t) })
	}
	t, err = a.awaitTask(ctx, c, t.ID)
	if err != nil {
		return a.leftTask(ctx, err)
	}
	over()
	if out != nil {
		out.finish(ctx, t)
	}
	if err := a.show(view{json: t, names: []string{t.ID}, human: func(p *page) { p.line("%s", endLine(t)) }}); err != nil {
		return err
	}
	return taskStatus(t)
}

// taskStatus is the exit status that a task gives polisctl.
func taskStatus(t api.Task) error {
	switch {
	case t.EndedBy == api.EndExit && t.ExitCode != nil && *t.ExitCode != 0:
		return childStatus(*t.ExitCode)
	case t.Stranded():
		return childStatus(exitFailure)
	case t.EndedBy == api.EndExit && t.Killed == "", (t.EndedBy == api.EndDone || t.EndedBy == api.EndComplete) && !t.Failed:
		return nil
	}
	return childStatus(exitFailure)
}

// leftTask is the end of polisctl while the task continues.
func (a *app) leftTask(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	var i interrupt
	if errors.As(err, &i) {
		return childStatus(exitSignal + int(i.sig))
	}
	return err
}

// awaitTurn returns the task once it has begun, or ended.
func (a *app) awaitTurn(ctx context.Context, c *client.Client, t api.Task) (api.Task, error) {
	if t.State != api.TaskQueued {
		return t, nil
	}
	p := a.progress("task " + t.ID + " waits for its turn")
	defer p.done()
	said := ""
	for t.State == api.TaskQueued {
		if text := turnText(t); t.Waits != nil && text != said {
			said = text
			p.step(text)
		}
		if !pause.For(ctx, turnPoll) {
			return t, context.Cause(ctx)
		}
		now, err := c.Task(ctx, t.ID, 0)
		if err != nil && api.CodeOf(err) != api.CodeUnavailable {
			return t, err
		}
		if err == nil {
			t = now
		}
	}
	return t, nil
}

// awaitTask returns the task once its result is final and the next one can begin, also across a restart of polisd.
func (a *app) awaitTask(ctx context.Context, c *client.Client, id string) (t api.Task, err error) {
	err = a.pollToEnd(ctx, func() (bool, error) {
		began := a.now()
		t, err = c.Task(ctx, id, taskPoll)
		// A request that took all of its time may not have seen the program exit.
		return t.Final && (err != nil || a.now().Sub(began) < taskPoll-time.Second), err
	})
	return t, err
}

// taskOutput shows the output of a task as it comes.
type taskOutput struct {
	mu    sync.Mutex
	begin int64
	read  int64
	ended bool
}

func (o *taskOutput) run(ctx context.Context, a *app, c *client.Client, t api.Task) {
	l := &logReader{a: a, ctx: ctx, c: c, name: t.Agent, back: reconnect{now: a.now}}
	from := int64(0)
	if t.Output != nil {
		from = t.Output.From
	}
	if from == 0 {
		l.lines = maxLines // it is the first output there is
	}
	o.mu.Lock()
	o.begin = from
	o.mu.Unlock()
	err := l.open(from)
	if err == nil {
		err = a.copyOut(&countedReader{o, l})
	}
	o.mu.Lock()
	o.ended = true
	o.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		a.complain(api.AsError(err))
	}
}

// countedReader counts what was read of the output.
type countedReader struct {
	o *taskOutput
	l *logReader
}

func (r *countedReader) Read(p []byte) (int, error) {
	n, err := r.l.Read(p)
	r.o.mu.Lock()
	r.o.read += int64(n)
	r.o.mu.Unlock()
	return n, err
}

// finish waits until the output of a task that has ended is shown.
func (o *taskOutput) finish(ctx context.Context, t api.Task) {
	if t.Output == nil || t.Output.To == 0 {
		return
	}
	for end := time.Now().Add(lastOutput); time.Now().Before(end); {
		o.mu.Lock()
		all := o.ended || o.begin+o.read >= t.Output.To
		o.mu.Unlock()
		if all || !pause.For(ctx, 20*time.Millisecond) {
			return
		}
	}
}
