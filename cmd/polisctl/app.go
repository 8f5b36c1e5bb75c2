package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/spf13/cobra"

	"polis/cmd/internal/ending"
	"polis/daemon/api"
	"polis/daemon/http/client"
	"polis/internal/pause"
)

// How long calls may take unless --timeout is given. They only keep a
// hung daemon from hanging a script; the daemon has its own, shorter bounds.
const (
	shortCall = 30 * time.Second
	longCall  = 15 * time.Minute
	forever   = 0
)

// app is one run of polisctl: its streams, its environment, its global flags.
type app struct {
	stdin, stdout, stderr *os.File
	getenv                func(string) string
	now                   func() time.Time

	socket  string
	json    bool
	quiet   bool
	timeout time.Duration

	misread  bool // the flags could not be parsed
	terminal screen
}

// run parses args, does the verb and returns the exit status.
func run(a *app, args []string) int {
	root := a.root()
	root.SetArgs(args)
	cmd, err := root.ExecuteC()
	if err == nil {
		return exitOK
	}
	return a.fail(cmd, args, err)
}

// interrupt is the cause of a context ended by a signal.
type interrupt struct{ sig syscall.Signal }

func (i interrupt) Error() string { return "interrupted by " + i.sig.String() }

// interruptible returns a context that ends when the user or the system asks
// polisctl to end. stop gives the signals back and waits. Without it, polisctl ends by the signal after ending.Bound.
func interruptible(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	sigs, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(sigs, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case s := <-sigs:
			if sig, ok := s.(syscall.Signal); ok {
				cancel(interrupt{sig})
				ending.Within(done, sig, func() {})
			}
		case <-ctx.Done():
			signal.Stop(sigs) // whatever does not end now, a signal ends
		}
	})
	return ctx, func() {
		signal.Stop(sigs)
		cancel(nil)
		close(done)
		wg.Wait()
	}
}

// call runs fn with a client and a context that ends on a signal, or after
// limit or --timeout. A limit of forever has no end of its own.
func (a *app) call(cmd *cobra.Command, limit time.Duration, fn func(context.Context, *client.Client) error) error {
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	if a.timeout > 0 {
		limit = a.timeout
	}
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	c := a.client()
	defer c.Close()
	return fn(ctx, c)
}

// follow is call for a command that runs until interrupted: by then it has done all it
// was asked for, and ends with the signal's status and without a word.
func (a *app) follow(cmd *cobra.Command, fn func(context.Context, *client.Client) error) error {
	return a.call(cmd, forever, func(ctx context.Context, c *client.Client) error {
		err := fn(ctx, c)
		var i interrupt
		if errors.As(context.Cause(ctx), &i) {
			return childStatus(exitSignal + int(i.sig))
		}
		return err
	})
}

// reach is call for the start of an agent's command. A signal that comes meanwhile is meant for
// the command, which may run already while the answer is under way; it ends the call only if that
// takes longer than leaveAfter.
func (a *app) reach(cmd *cobra.Command, fn func(context.Context, *client.Client) error) error {
	limit := shortCall
	if a.timeout > 0 {
		limit = a.timeout
	}
	ctx, cancel := context.WithCancelCause(cmd.Context())
	defer cancel(nil)
	asked, stop := interruptible(cmd.Context())
	defer stop()
	defer context.AfterFunc(asked, func() {
		if pause.For(ctx, leaveAfter) {
			cancel(context.Cause(asked))
		}
	})()
	bounded, release := context.WithTimeout(ctx, limit)
	defer release()
	c := a.client()
	defer c.Close()
	return fn(bounded, c)
}

func (a *app) client() *client.Client {
	path := a.socket
	if path == "" {
		path = a.getenv("POLIS_SOCKET")
	}
	return client.New(path)
}

// wasInterrupted returns the signal that ended a call.
func wasInterrupted(err error) (syscall.Signal, bool) {
	var i interrupt
	ok := errors.As(err, &i)
	return i.sig, ok
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// usagef is a refusal of the arguments.
func usagef(format string, args ...any) *api.Error {
	return api.Errorf(api.CodeBadRequest, format, args...)
}
