package main

import (
	"context"
	"sync"

	"github.com/spf13/cobra"

	"polis/daemon/api"
)

// followContext returns the context in which polisctl follows f: it ends with cmd's, when the user
// leaves, and after --timeout. over is called when f has ended: its questions and the prompt of Ctrl-C give the terminal back, and
// what is left of its output can be shown. stop ends ctx. Both can be called again.
func (a *app) followContext(cmd *cobra.Command, f following) (ctx context.Context, over, stop func()) {
	ctx, cancel := context.WithCancelCause(cmd.Context())
	timed := func() {}
	if a.timeout > 0 {
		ctx, timed = context.WithTimeoutCause(ctx, a.timeout, api.Errorf(api.CodeTimeout, "%s has not ended after %s", f.what, a.timeout).WithHint("%s", f.hint))
	}
	var wg sync.WaitGroup
	done, end := make(chan struct{}), make(chan struct{})
	unask := a.showQuestions(ctx, f.agents)
	wg.Go(func() { a.atInterrupt(ctx, cancel, f, unask, end, done) })
	ended := sync.OnceFunc(func() { close(done) })
	closeEnd := sync.OnceFunc(func() { close(end) })
	over = func() {
		closeEnd()
		unask()
		a.terminal.endPrompt(a.stderr)
	}
	return ctx, over, func() {
		timed()
		cancel(nil)
		ended()
		wg.Wait()
		unask()
	}
}

// pollToEnd calls poll until it reports the end, also across a restart of polisd.
func (a *app) pollToEnd(ctx context.Context, poll func() (ended bool, err error)) error {
	back := reconnect{now: a.now}
	for {
		began := a.now()
		ended, err := poll()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && api.CodeOf(err) == api.CodeUnavailable && back.again(ctx, a.now().Sub(began)):
			continue
		case err != nil || ended:
			return err
		}
		back.answered()
	}
}
