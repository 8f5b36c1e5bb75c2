package unotify

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"polis/fusefs/fdtree"
)

const (
	// name is the name of the socket in the directory of a Supervisor.
	name = "s"
	// backlog bounds the connections that wait for accept(2).
	backlog = 64
)

// Supervisor receives the listeners of seccomp filters and refuses the calls they
// report. Create one with Open, set the fields, call Run in one goroutine, then
// Stop, and call Close when Run has returned.
type Supervisor struct {
	// Identify returns the process of the thread that made a call. It runs before
	// the answer, while the thread still exists. Refused receives the call after
	// the answer. Run calls both, and answers no other call meanwhile.
	Identify func(thread int) Caller
	Refused  func(c Call, caller Caller)
	Log      *slog.Logger

	dir    string
	dirFD  int
	socket int
	epoll  int
	what   map[int]role
	pace   pace

	mu   sync.Mutex // of stop, which others than Run use
	stop int        // an eventfd, -1 when it is closed
}

// Caller is the process that made a call: its number in the pid namespace of the
// process that calls Run, and the name of its program.
type Caller struct {
	Pid     int
	Program string
}

// role is the purpose of a descriptor in the epoll set.
type role int

const (
	roleStop role = iota
	roleSocket
	roleConn // a connection that will carry a listener
	roleListener
)

// Open creates a Supervisor and its socket in the directory dir, which must not
// exist yet; only the caller can enter it. The path may be longer than a socket name.
func Open(dir string) (_ *Supervisor, err error) {
	if err := supported(); err != nil {
		return nil, fmt.Errorf("open supervisor: %w", err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(dir), 0o700), os.Mkdir(dir, 0o700)); err != nil {
		return nil, fmt.Errorf("open supervisor: %w", err)
	}
	s := &Supervisor{Log: slog.New(slog.DiscardHandler), dir: dir, dirFD: -1, socket: -1, epoll: -1, stop: -1, what: map[int]role{}, pace: pace{now: time.Now}}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open supervisor: %w", err), s.Close())
		}
	}()
	if s.dirFD, err = unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	if s.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if s.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	if s.socket, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err := unix.Bind(s.socket, &unix.SockaddrUnix{Name: s.Path()}); err != nil {
		return nil, os.NewSyscallError("bind", err)
	}
	if err := unix.Listen(s.socket, backlog); err != nil {
		return nil, os.NewSyscallError("listen", err)
	}
	if err := errors.Join(s.watch(s.stop, roleStop), s.watch(s.socket, roleSocket)); err != nil {
		return nil, err
	}
	return s, nil
}

// Path is the socket's, for this process only. It is short whatever the
// directory is called: a socket's name has 107 bytes.
func (s *Supervisor) Path() string {
	return filepath.Join("/proc/self/fd", strconv.Itoa(s.dirFD), name)
}

func (s *Supervisor) watch(fd int, r role) error {
	if err := unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	s.what[fd] = r
	return nil
}

// drop closes a descriptor, which also removes it from the epoll set: it has no duplicate.
func (s *Supervisor) drop(fd int) {
	delete(s.what, fd)
	if err := unix.Close(fd); err != nil {
		s.Log.Warn("connection not closed", "op", "calls.drop", "err", err)
	}
}

// Stop makes Run return. It may be called at any time and more than once.
func (s *Supervisor) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop < 0 {
		return nil
	}
	if _, err := unix.Write(s.stop, []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		return os.NewSyscallError("write eventfd", err)
	}
	return nil
}

// Close closes every listener: calls that wait for an answer, and later ones, fail with ENOSYS.
// Run must have returned.
func (s *Supervisor) Close() error {
	for fd, r := range s.what {
		if r == roleConn || r == roleListener {
			s.drop(fd)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, fd := range []*int{&s.socket, &s.stop, &s.epoll, &s.dirFD} {
		if *fd >= 0 {
			_ = unix.Close(*fd)
		}
		*fd = -1
	}
	return Remove(s.dir)
}

// Remove removes what a supervisor that was not closed has left. A missing directory is no error.
func Remove(dir string) error {
	if err := fdtree.Cleanup(dir); err != nil {
		return fmt.Errorf("remove the supervisor's socket: %w", err)
	}
	return nil
}
