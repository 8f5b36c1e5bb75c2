package fusefs

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// interruptPoll is how often an interrupted, still waiting call is looked at.
const interruptPoll = 50 * time.Millisecond

// request is what every handler is given of the request it answers; it tells
// when the kernel has interrupted it.
type request = <-chan struct{}

// callCtx is the context of one request. The kernel reports an interrupt for
// any signal the caller does not ignore, and only once; on a disk no open fails
// because a timer ticked or a child ended. So the context ends only when the
// caller is to end: a signal is pending that means so, he is gone, or the view
// is. It costs nothing unless the guard waits for Done.
type callCtx struct {
	fs       *FS
	pid      uint32
	cancel   <-chan struct{} // closed by go-fuse at an interrupt
	finished chan struct{}   // closed when the request has been dealt with

	once sync.Once
	done chan struct{}
}

func (fs *FS) newCall(cancel request, pid uint32) *callCtx {
	return &callCtx{fs: fs, pid: pid, cancel: cancel, finished: make(chan struct{}), done: make(chan struct{})}
}

func (c *callCtx) finish() { close(c.finished) }

func (c *callCtx) Deadline() (time.Time, bool) { return time.Time{}, false }
func (c *callCtx) Value(any) any               { return nil }

// Done starts the watch the first time it is asked for.
func (c *callCtx) Done() <-chan struct{} {
	c.once.Do(func() { c.fs.watchers.Go(c.watch) })
	return c.done
}

func (c *callCtx) Err() error {
	select {
	case <-c.Done():
		return context.Canceled
	default:
		return nil
	}
}

func (c *callCtx) watch() {
	select {
	case <-c.finished:
		return
	case <-c.fs.dying:
		close(c.done)
		return
	case <-c.cancel:
	}
	tick := time.NewTicker(interruptPoll)
	defer tick.Stop()
	for !ending(c.pid) && c.fs.alive() {
		select {
		case <-c.finished:
			return
		case <-c.fs.dying:
			close(c.done)
			return
		case <-tick.C:
		}
	}
	close(c.done)
}

// alive asks the kernel whether the view is still attached. The connection may
// have been ended by somebody else; go-fuse then interrupts every request too.
func (fs *FS) alive() bool {
	var st unix.Statfs_t
	err := unix.Statfs(fs.cfg.Mountpoint, &st)
	return err == nil && st.Type == unix.FUSE_SUPER_MAGIC
}

// endSignals are the signals by which somebody asks a process to end. A signal
// whose default is death and which has no handler shows as SIGKILL.
const endSignals = 1<<(unix.SIGHUP-1) | 1<<(unix.SIGINT-1) | 1<<(unix.SIGQUIT-1) | 1<<(unix.SIGABRT-1) |
	1<<(unix.SIGKILL-1) | 1<<(unix.SIGTERM-1)

// ending says whether a thread is gone or has such a signal pending and not
// blocked (proc_pid_status(5)). What cannot be seen counts as ending.
func ending(pid uint32) bool {
	b, err := os.ReadFile("/proc/" + strconv.FormatUint(uint64(pid), 10) + "/status")
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
