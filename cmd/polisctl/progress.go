package main

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// progress shows on standard error what a long call does: one line that turns
// on a terminal, one line per step elsewhere, nothing with -q or --json.
type progress struct {
	out     *os.File
	quiet   bool
	spins   bool
	steps   chan string
	stopped sync.Once
	wg      sync.WaitGroup
}

// spinDelay keeps short calls from flickering.
const spinDelay = 250 * time.Millisecond

// progress starts showing. what is the first step, shown only on a terminal.
// The caller must call done.
func (a *app) progress(what string) *progress {
	p := &progress{out: a.stderr, quiet: a.quiet || a.json, steps: make(chan string)}
	p.spins = !p.quiet && isTerminal(a.stderr) && a.getenv("TERM") != "dumb"
	if p.spins {
		p.wg.Go(func() { p.spin(what) })
	}
	return p
}

// step says what is done now.
func (p *progress) step(what string) {
	switch {
	case p.quiet:
	case p.spins:
		p.steps <- what
	default:
		fmt.Fprintf(p.out, "%s\n", cleanText(what))
	}
}

// done removes the line from the terminal. It may be called more than once.
func (p *progress) done() {
	p.stopped.Do(func() { close(p.steps) })
	p.wg.Wait()
}

func (p *progress) spin(what string) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	start, shown := time.Now(), false
	for i := 0; ; i++ {
		select {
		case next, ok := <-p.steps:
			if !ok {
				if shown {
					fmt.Fprint(p.out, "\r\x1b[K")
				}
				return
			}
			what = next
		case <-tick.C:
		}
		if time.Since(start) < spinDelay {
			continue
		}
		shown = true
		fmt.Fprintf(p.out, "\r\x1b[K%c %s", `|/-\`[i%4], clean(what))
	}
}
