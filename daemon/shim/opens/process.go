package opens

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
)

const (
	// maxProcesses and maxThreads bound the caches.
	maxProcesses = 1024
	maxThreads   = 8192
	// maxCommand bounds a command line, in bytes.
	maxCommand = 256
	// commandTime is how long an operation waits for the command line of its process.
	commandTime = 50 * time.Millisecond
	// freshFor is how long a command line is taken for that of the same process: its number can be
	// given to another one.
	freshFor = time.Second
)

// process is what is recorded of a process.
type process struct {
	pid              uint32
	program, command string
	at               time.Time
}

// processes caches what /proc has of the processes that call: the executable is read at each call, the
// command line when the executable changes, or after freshFor. Which process a thread is of is remembered,
// and the kernel confirms it at each call: a compiler opens its files in as many threads as it has processors.
//
// A command line is in memory of the process, which can put a mapping of a file of the view there: to
// read it is then a request to the view, which must not wait for the one that is being recorded. So another
// goroutine reads it, and the operation continues without it after commandTime.
type processes struct {
	mu      sync.Mutex
	m       map[uint32]process // by process
	threads map[uint32]uint32  // the process of a thread
	ask     chan lookup
	done    chan struct{}
}

// lookup is a question for the command line of a process.
type lookup struct {
	dir    string
	answer chan string // has room for it
}

func (p *processes) open() {
	p.ask, p.done = make(chan lookup), make(chan struct{})
	go func() {
		defer close(p.done)
		for l := range p.ask {
			l.answer <- command(l.dir)
		}
	}()
}

func (p *processes) close(ctx context.Context) error {
	close(p.ask)
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("a command line is still being read: %w", context.Cause(ctx))
	}
}

// command returns the command line of a process; "" if that takes too long.
func (p *processes) command(dir string) string {
	t := time.NewTimer(commandTime)
	defer t.Stop()
	l := lookup{dir: dir, answer: make(chan string, 1)}
	select {
	case p.ask <- l:
	case <-t.C:
		return ""
	}
	select {
	case text := <-l.answer:
		return text
	case <-t.C:
		return ""
	}
}

// of returns the process with a thread of this number, which waits in a system call.
func (p *processes) of(thread uint32) process {
	if thread == 0 {
		return process{}
	}
	pid := p.processOf(thread)
	dir := "/proc/" + strconv.FormatUint(uint64(pid), 10)
	var buf [unix.PathMax]byte
	n, err := unix.Readlink(dir+"/exe", buf[:])
	if err != nil {
		n = 0
	}
	now := time.Now()
	p.mu.Lock()
	known, ok := p.m[pid]
	p.mu.Unlock()
	if ok && known.program == string(buf[:n]) && now.Sub(known.at) < freshFor {
		return known
	}
	out := process{pid: pid, program: api.EncodePath(string(buf[:n])), command: p.command(dir), at: now}
	if out.program != string(buf[:n]) {
		return out // rare, and not worth a cache
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.m == nil || len(p.m) >= maxProcesses {
		p.m = map[uint32]process{}
	}
	p.m[pid] = out
	return out
}

// processOf returns the process of a thread.
func (p *processes) processOf(thread uint32) uint32 {
	p.mu.Lock()
	pid, ok := p.threads[thread]
	p.mu.Unlock()
	if ok && isThreadOf(thread, pid) {
		return pid
	}
	pid = tgid(thread)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.threads == nil || len(p.threads) >= maxThreads {
		p.threads = map[uint32]uint32{}
	}
	p.threads[thread] = pid
	return pid
}

// isThreadOf reports whether a process has a thread now. Signal 0 is sent to nobody (kill(2)).
func isThreadOf(thread, pid uint32) bool {
	err := unix.Tgkill(int(pid), int(thread), 0)
	return err == nil || errors.Is(err, unix.EPERM)
}

// tgid returns the process of a thread; the thread if there is none.
func tgid(thread uint32) uint32 {
	fd, err := unix.PidfdOpen(int(thread), unix.PIDFD_THREAD)
	if err != nil {
		return statusTgid(thread) // a kernel before 6.9, or the thread is gone
	}
	defer unix.Close(fd) //nolint:errcheck // it was opened for a question
	info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_PID}
	if unix.IoctlPidfdInfo(fd, &info) != nil || info.Mask&unix.PIDFD_INFO_PID == 0 || info.Tgid == 0 {
		return statusTgid(thread) // before 6.13
	}
	return info.Tgid
}

// statusTgid is tgid by the text that /proc has of a thread.
func statusTgid(thread uint32) uint32 {
	b, err := os.ReadFile("/proc/" + strconv.FormatUint(uint64(thread), 10) + "/status")
	if err != nil {
		return thread
	}
	_, rest, ok := strings.Cut(string(b), "\nTgid:\t")
	if !ok {
		return thread
	}
	line, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseUint(line, 10, 32)
	if err != nil {
		return thread
	}
	return uint32(n)
}

// command reads a command line as text. Its file is none that the runtime could wait for.
func command(dir string) string {
	fd, err := unix.Open(dir+"/cmdline", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	buf := make([]byte, maxCommand)
	n, err := unix.Read(fd, buf)
	if err != nil || n == 0 {
		return ""
	}
	text := strings.TrimSpace(string(bytes.ReplaceAll(bytes.TrimRight(buf[:n], "\x00"), []byte{0}, []byte(" "))))
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "?")
	}
	if n == maxCommand {
		text += "..."
	}
	return text
}
