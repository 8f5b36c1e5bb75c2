package fusefs

import (
	"bufio"
	"bytes"
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/conn"
)

// interruptPoll is how often the callers of interrupted calls that wait are checked, at most.
const interruptPoll = 50 * time.Millisecond

// request is what every handler gets of the request it answers; it reports whether
// the kernel has interrupted it.
type request = *conn.Call

// callCtx is the context of one request. The kernel reports an interrupt for
// any signal the caller does not ignore, and only once; on a disk no open fails
// because a timer ticked or a child ended. So the context ends only when the
// caller is to end: a signal is pending that means so, the caller is gone, or the view
// is. It costs nothing unless the guard waits for Done: then it is left to
// those that may still read it, else the next request of the reader uses it.
type callCtx struct {
	fs  *FS
	req request
	pid uint32

	mu       sync.Mutex
	busy     bool          // the request is being dealt with
	done     chan struct{} // made by the first Done
	finished chan struct{} // made with it; closed when the request is over
}

func (fs *FS) newCall(req request, pid uint32) *callCtx {
	c, _ := req.Local.(*callCtx)
	if c == nil || c.busy || c.done != nil {
		c = &callCtx{}
		req.Local = c
	}
	c.fs, c.req, c.pid, c.busy = fs, req, pid, true
	return c
}

func (c *callCtx) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy = false
	if c.finished != nil {
		close(c.finished)
	}
}

func (c *callCtx) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value makes the call known to Wait.
func (c *callCtx) Value(key any) any {
	if _, ok := key.(waitKey); ok {
		return c
	}
	return nil
}

// Done starts the watch at the first call.
func (c *callCtx) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done, c.finished = make(chan struct{}), make(chan struct{})
		if !c.busy { // asked too late: nothing is waited for any more
			close(c.done)
			return c.done
		}
		struck := c.req.Interrupted()
		c.fs.watchers.Go(func() { c.watch(struck) })
	}
	return c.done
}

// Err starts no watch as long as nothing was interrupted.
func (c *callCtx) Err() error {
	c.mu.Lock()
	idle := c.done == nil && c.busy && !c.req.WasInterrupted()
	c.mu.Unlock()
	if idle {
		return nil
	}
	select {
	case <-c.Done():
		return context.Canceled
	default:
		return nil
	}
}

func (c *callCtx) watch(struck <-chan struct{}) {
	dead := c.fs.server.Dead()
	select {
	case <-c.finished:
		return
	case <-c.fs.dying:
		close(c.done)
		return
	case <-dead:
		close(c.done)
		return
	case <-struck:
	}
	ended := c.fs.watchEnd(c)
	defer c.fs.ends.forget(c)
	select {
	case <-c.finished:
		return
	case <-c.fs.dying:
	case <-dead:
	case <-ended:
	}
	close(c.done)
}

// endSignals are the signals that ask a process to end. A signal
// whose default is death and which has no handler shows as SIGKILL.
const endSignals = 1<<(unix.SIGHUP-1) | 1<<(unix.SIGINT-1) | 1<<(unix.SIGQUIT-1) | 1<<(unix.SIGABRT-1) |
	1<<(unix.SIGKILL-1) | 1<<(unix.SIGTERM-1)

// ending reports whether a thread is gone or has such a signal pending and not
// blocked (proc_pid_status(5)). What cannot be seen counts as ending.
func ending(pid uint32) bool {
	b, err := backing.ProcessStatus(pid)
	return err != nil || endingStatus(b)
}

func endingStatus(b []byte) bool {
	var pending, blocked uint64
	seen := 0
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		name, value, ok := strings.Cut(s.Text(), ":")
		if !ok {
			continue
		}
		switch name {
		case "SigPnd", "ShdPnd", "SigBlk":
			bits, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			if err != nil {
				return true
			}
			seen++
			if name == "SigBlk" {
				blocked = bits
			} else {
				pending |= bits
			}
		}
	}
	return seen != 3 || pending&^blocked&endSignals != 0
}
