package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/runc/libcontainer"
	"golang.org/x/sys/unix"
)

// Process is a program to execute inside.
type Process struct {
	Args []string // the first is searched in PATH of Env
	Env  []string // on top of Config.Env, "NAME=value"
	Cwd  string   // "" for Config.Workdir

	// With TTY the process leads a session with a terminal of its own, whose other end is
	// Console; the three files are not used.
	TTY        bool
	Rows, Cols uint16

	// Files of the caller, nil for /dev/null. The caller closes them, and can do so when Start
	// has returned. Pass pipes: a regular file would change its owner to the sandbox's user.
	Stdin, Stdout, Stderr *os.File
}

// Proc is a process that was started inside.
type Proc struct {
	process *libcontainer.Process
	pid     int
	name    string
	console *os.File

	done chan struct{}
	code int
	err  error

	mu       sync.Mutex
	finished bool // reaped: the number may belong to another process
}

type killed struct {
	at   time.Time
	comm string
}

// Start executes a program inside. It returns [ErrNotFound] if the program or the working
// directory cannot be used, and [ErrGone] when the sandbox has ended. A file that the kernel
// cannot execute is detected too late for an error: such a process writes the reason to Stderr
// and exits with 255.
func (s *Sandbox) Start(p Process) (*Proc, error) {
	if len(p.Args) == 0 || p.Args[0] == "" {
		return nil, fmt.Errorf("start process: %w: no program", ErrConfig)
	}
	for _, a := range append(append([]string{p.Cwd}, p.Args...), p.Env...) {
		if strings.ContainsRune(a, 0) {
			return nil, fmt.Errorf("start process: %w: zero byte in an argument", ErrConfig)
		}
	}
	if p.Cwd == "" {
		p.Cwd = s.cfg.Workdir
	}
	if !filepath.IsAbs(p.Cwd) {
		return nil, fmt.Errorf("start process: %w: working directory %q is not absolute", ErrConfig, p.Cwd)
	}
	lp := &libcontainer.Process{
		Args: p.Args, Env: s.cfg.env(p.Env), Cwd: p.Cwd,
		UID: s.cfg.UID, GID: s.cfg.GID, AdditionalGroups: s.cfg.Groups,
	}
	proc := &Proc{process: lp, name: comm(p.Args[0]), done: make(chan struct{})}
	var term *terminal
	if p.TTY {
		var err error
		if term, err = newTerminal(); err != nil {
			return nil, fmt.Errorf("start process: terminal: %w", err)
		}
		defer term.close()
		lp.ConsoleSocket, lp.ConsoleHeight, lp.ConsoleWidth = term.theirs, p.Rows, p.Cols
	} else {
		// A nil *os.File in an interface would not be nil.
		if p.Stdin != nil {
			lp.Stdin = p.Stdin
		}
		if p.Stdout != nil {
			lp.Stdout = p.Stdout
		}
		if p.Stderr != nil {
			lp.Stderr = p.Stderr
		}
	}
	if err := s.begin(); err != nil {
		return nil, fmt.Errorf("start process: %w", err)
	}
	s.starts.RLock()
	if err := s.container.Start(lp); err != nil {
		s.starts.RUnlock()
		s.work.Done()
		return nil, s.startError(p, err)
	}
	pid, err := lp.Pid()
	s.mu.Lock()
	s.running[pid] = true
	s.mu.Unlock()
	s.starts.RUnlock()
	if err == nil && term != nil {
		proc.console, err = term.receive()
	}
	proc.pid = pid
	go func() {
		defer s.work.Done()
		s.await(proc)
	}()
	if err != nil {
		// It runs, but its terminal is lost.
		_ = proc.Signal(unix.SIGKILL)
		<-proc.done
		return nil, fmt.Errorf("start process: %w", err)
	}
	return proc, nil
}

// begin registers work that Destroy waits for, unless Destroy has begun.
func (s *Sandbox) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.initDone:
		return ErrGone
	default:
	}
	if s.ended {
		return ErrGone
	}
	s.work.Add(1)
	return nil
}

// startError distinguishes a program that cannot be executed from a broken sandbox.
func (s *Sandbox) startError(p Process, err error) error {
	select {
	case <-s.initDone:
		return fmt.Errorf("start process: %w: %w", ErrGone, err)
	default:
	}
	text := err.Error()
	for _, sign := range []string{
		"executable file not found", "no such file or directory", "permission denied",
		"exec format error", "not a directory", "is a directory", "argument list too long",
	} {
		if strings.Contains(text, sign) {
			what := p.Args[0]
			if strings.Contains(text, "chdir to cwd") {
				what = "in directory " + p.Cwd
			}
			return fmt.Errorf("start process: %w %s: %s", ErrNotFound, what, sign)
		}
	}
	return classify("start process", err)
}

// await reaps the process and records how it ended.
func (s *Sandbox) await(p *Proc) {
	state, err := p.process.Wait()
	p.mu.Lock()
	p.finished = true
	p.mu.Unlock()
	switch {
	case state != nil:
		ws, ok := state.Sys().(interface {
			Signaled() bool
			Signal() unix.Signal
			ExitStatus() int
		})
		if ok && ws.Signaled() {
			p.code = 128 + int(ws.Signal())
		} else {
			p.code = state.ExitCode()
		}
	case err != nil:
		p.code, p.err = -1, fmt.Errorf("wait for process %d: %w", p.pid, err)
	}
	s.mu.Lock()
	delete(s.running, p.pid)
	if p.code == 128+int(unix.SIGKILL) {
		s.killed[p.pid] = killed{at: time.Now(), comm: p.name}
	}
	s.forgetKilled()
	s.mu.Unlock()
	close(p.done)
}

// Pid is the process as the host counts.
func (p *Proc) Pid() int { return p.pid }

// Console is the other end of the process's terminal, nil without one. The caller closes it; a
// read fails with EIO when the last process at the terminal is gone.
func (p *Proc) Console() *os.File { return p.console }

// Done is closed when the process has ended.
func (p *Proc) Done() <-chan struct{} { return p.done }

// Wait waits for the process and returns its exit code, 128 + the signal's number if a signal
// ended it. Several goroutines may call it, repeatedly. Processes that it started may continue.
func (p *Proc) Wait() (int, error) {
	<-p.done
	return p.code, p.err
}

// Signal sends a signal to the process alone. An ended process is
// os.ErrProcessDone.
func (p *Proc) Signal(sig unix.Signal) error { return p.send(sig, p.pid) }

// SignalGroup sends a signal to the process and to its children that are in its process group, as
// Ctrl-C does for a pipeline.
func (p *Proc) SignalGroup(sig unix.Signal) error { return p.send(sig, -p.pid) }

func (p *Proc) send(sig unix.Signal, to int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.finished {
		return os.ErrProcessDone
	}
	err := unix.Kill(to, sig)
	if errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	}
	if err != nil {
		return fmt.Errorf("signal process %d: %w", p.pid, err)
	}
	return nil
}

// Resize sets the terminal's size, in characters; programs get SIGWINCH.
func (p *Proc) Resize(rows, cols uint16) error {
	if p.console == nil {
		return fmt.Errorf("resize terminal: %w: the process has none", ErrConfig)
	}
	// SyscallConn holds the file open: its number cannot be reused during the ioctl.
	raw, err := p.console.SyscallConn()
	if err != nil {
		return fmt.Errorf("resize terminal: %w", err)
	}
	var ierr error
	err = raw.Control(func(fd uintptr) {
		ierr = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	})
	if err := errors.Join(err, ierr); err != nil {
		return fmt.Errorf("resize terminal: %w", err)
	}
	return nil
}

// Unread returns how many bytes written to the terminal no process has read (FIONREAD, which is TIOCINQ: ioctl_tty(2)).
// In canonical mode, bytes of a line that has no end yet do not count.
func (p *Proc) Unread() (n int, err error) {
	if p.console == nil {
		return 0, fmt.Errorf("terminal: %w: the process has none", ErrConfig)
	}
	raw, err := p.console.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("terminal: %w", err)
	}
	var ierr error
	err = raw.Control(func(fd uintptr) { n, ierr = unreadOf(fd) })
	if err := errors.Join(err, ierr); err != nil {
		return 0, fmt.Errorf("terminal: %w", err)
	}
	return n, nil
}

// unreadOf returns how many bytes written to a terminal, of which fd is the master, were not read.
// The queue is that of the other end, which is opened for a moment (ioctl_tty(2), TIOCGPTPEER).
// Without O_NOCTTY a terminal whose session has just ended becomes the controlling terminal of this
// process, if that leads a session, and its end kills it by SIGHUP.
func unreadOf(fd uintptr) (n int, err error) {
	other, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK)
	if errno != 0 {
		return 0, os.NewSyscallError("ioctl TIOCGPTPEER", errno)
	}
	// What was written gets there a little later, and poll(2) waits for that.
	_, perr := unix.Poll([]unix.PollFd{{Fd: int32(other), Events: unix.POLLIN}}, 0)
	n, err = unix.IoctlGetInt(int(other), unix.TIOCINQ)
	if perr != nil && !errors.Is(perr, unix.EINTR) {
		err = errors.Join(err, perr)
	}
	return n, errors.Join(err, unix.Close(int(other)))
}

// comm is the kernel's name of a program.
func comm(program string) string {
	name := filepath.Base(program)
	return name[:min(len(name), 15)]
}
