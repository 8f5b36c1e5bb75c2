package main

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"
)

// endingCall bounds the question whether an agent is frozen.
const endingCall = 3 * time.Second

// signals passes on what this process is sent. It waits for nothing that the shim does: a shim that hangs reads nothing.
func (s *session) signals(done <-chan struct{}) {
	sends := make(chan func() error, 16)
	var wg sync.WaitGroup
	defer wg.Wait() // run closes the connection, which ends a send
	defer close(sends)
	wg.Go(func() {
		for send := range sends {
			_ = send() // the connection is gone; Run says why
		}
	})
	pass := func(send func() error) {
		select {
		case sends <- send:
		default: // nobody reads
		}
	}
	asked, stop := context.WithCancel(context.Background())
	defer stop()
	frozen := make(chan string, 1)
	var leave, ask <-chan time.Time
	var last syscall.Signal
	ending := 0
	for {
		select {
		case <-done:
			return
		case <-leave:
			s.cancel(leaving{interrupt{last}, fmt.Sprintf("the command has not ended after signal %d (%s); it is killed", last, last)})
			return
		case <-ask:
			wg.Go(func() {
				ctx, release := context.WithTimeout(asked, endingCall)
				defer release()
				frozen <- s.frozen(ctx)
			})
		case why := <-frozen:
			if why != "" {
				s.cancel(leaving{interrupt{last}, why})
				return
			}
		case got := <-s.sigs:
			sig, ok := got.(syscall.Signal)
			if !ok {
				continue
			}
			switch sig {
			case syscall.SIGWINCH, syscall.SIGCONT:
				if sig == syscall.SIGCONT {
					s.raw.again()
				}
				pass(func() error { s.resize(); return nil })
				continue
			}
			if s.attach {
				s.cancel(interrupt{sig})
				return
			}
			last = sig
			pass(func() error { return s.remote.Signal(sig) })
			ending++
			if ending >= killAfter {
				s.cancel(interrupt{sig})
				return
			}
			if ending == 1 {
				ask = time.After(leaveAfter)
			}
			switch {
			case leave != nil:
			case s.raw != nil:
				leave = time.After(leaveAfter)
			case sig == syscall.SIGTERM || sig == syscall.SIGHUP: // SIGINT can be a key of the command's own
				leave = time.After(endAfter)
			}
		}
	}
}
