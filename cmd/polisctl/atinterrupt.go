package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"polis/cmd/internal/ending"
	"polis/daemon/api"
)

// following is what polisctl follows to its end, and can end.
type following struct {
	what     string // such as "task claude.3"
	hint     string // of the error that it has not ended after --timeout
	question string // at Ctrl-C
	left     string // printed when polisctl leaves and it continues
	end      func(context.Context) error
	agents   []string // whose questions are shown
}

// atInterrupt asks, at Ctrl-C, whether what is followed is to be ended; without a terminal, and at
// any other signal, polisctl leaves and it continues. done is closed when polisctl follows no more: after a signal, that
// must be within ending.Bound. over is closed when what is followed has ended by itself, and there is no question any more.
func (a *app) atInterrupt(ctx context.Context, cancel context.CancelCauseFunc, f following, unask func(), over, done <-chan struct{}) {
	sigs := make(chan os.Signal, 2)
	signal.Notify(sigs, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(sigs)
	var sig syscall.Signal
	select {
	case <-ctx.Done():
		return
	case s := <-sigs:
		sig, _ = s.(syscall.Signal)
	}
	leave := func() {
		cancel(interrupt{sig})
		var wg sync.WaitGroup
		defer wg.Wait()
		defer ending.Within(done, sig, func() {})
		wg.Go(func() { // a terminal can be blocked, too
			if !a.quiet && !isClosed(over) {
				a.terminal.endPrompt(a.stderr)
				fmt.Fprintln(a.stderr, f.left)
			}
		})
	}
	if sig != syscall.SIGINT || !isTerminal(a.stdin) || isClosed(over) {
		leave()
		return
	}
	unask() // the signal is no answer to a question of the agent
	text, next := a.askLine(ctx, "\n"+f.question+", anything else leaves it running: ", sigs, over)
	if next == 0 && isClosed(over) { // what is left of its output is shown meanwhile
		select {
		case <-ctx.Done():
			return
		case s := <-sigs:
			next, _ = s.(syscall.Signal)
		}
	}
	switch {
	case ctx.Err() != nil:
		return
	case next != 0:
		sig = next
	case text == "y" || text == "Y" || text == "yes":
		signal.Stop(sigs) // polisd may hang: the next signal ends polisctl
		ctx, release := context.WithTimeout(ctx, shortCall)
		defer release()
		if err := f.end(ctx); err != nil {
			a.complain(api.AsError(err))
		}
		return // it has ended, or cannot be: that is followed as before
	}
	leave()
}

// askLine asks for a line. It has the terminal until the line, a signal, or the end of ctx or over comes.
func (a *app) askLine(ctx context.Context, text string, sigs <-chan os.Signal, over <-chan struct{}) (line string, sig syscall.Signal) {
	a.terminal.hold(a.stderr)
	defer a.terminal.release()
	a.terminal.asked = true
	fmt.Fprint(a.stderr, text)
	answer := make(chan string, 1)
	go func() { // ends with polisctl: nothing ends a read of a terminal
		line, _ := bufio.NewReader(a.stdin).ReadString('\n') //nolint:errcheck // no answer is a no
		answer <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
	case <-over:
	case s := <-sigs:
		sig, _ = s.(syscall.Signal)
	case line = <-answer:
		a.terminal.asked = false
	}
	return line, sig
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
