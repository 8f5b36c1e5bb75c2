package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"
)

// progress shows on standard error what a long call does: one line that turns
// on a terminal, one line per step elsewhere, nothing with -q or --json.
type progress struct {
	out     *os.File
	on      *screen
	quiet   bool
	spins   bool
	steps   chan string
	stopped sync.Once
	wg      sync.WaitGroup
	kind    string    // of the last line, without numbers
	wrote   time.Time // when that was
}

// spinDelay keeps short calls from flickering.
const spinDelay = 250 * time.Millisecond

// progress starts showing. what is the first step, shown only on a terminal.
// The caller must call done.
func (a *app) progress(what string) *progress {
	p := &progress{out: a.stderr, on: &a.terminal, quiet: a.quiet || a.json, steps: make(chan string)}
	p.spins = !p.quiet && isTerminal(a.stderr) && a.getenv("TERM") != "dumb"
	if p.spins {
		p.wg.Go(func() { p.spin(what) })
	}
	return p
}

// step prints the present step.
func (p *progress) step(what string) {
	switch {
	case p.quiet:
	case p.spins:
		p.steps <- what
	case p.news(what):
		fmt.Fprintf(p.out, "%s\n", cleanText(what))
	}
}

// countEvery is how often a line is written that differs from the last one
// only in its numbers: what is written down is not read as it moves.
const countEvery = 5 * time.Second

func (p *progress) news(what string) bool {
	kind := strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, what)
	if kind == p.kind && time.Since(p.wrote) < countEvery {
		return false
	}
	p.kind, p.wrote = kind, time.Now()
	return true
}

// done removes the line from the terminal. It may be called more than once.
func (p *progress) done() {
	p.stopped.Do(func() { close(p.steps) })
	p.wg.Wait()
}

func (p *progress) spin(what string) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	start := time.Now()
	for i := 0; ; i++ {
		select {
		case next, ok := <-p.steps:
			if !ok {
				p.on.endTurn(p.out)
				return
			}
			what = next
		case <-tick.C:
		}
		if time.Since(start) < spinDelay {
			continue
		}
		p.on.turn(p.out, fmt.Sprintf("%c %s", `|/-\`[i%4], clean(what)))
	}
}
