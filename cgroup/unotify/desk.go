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
	// name is the socket's, in the directory of a Desk.
	name = "s"
	// backlog bounds the connections that wait to be taken.
	backlog = 64
)

// Desk is where filters' listeners are handed in and where calls are refused.
// Make one with Open, set the fields, call Run in one goroutine, then Stop, and
// Close when Run has returned.
type Desk struct {
	// Who finds out about the thread that made a call, while it still waits: it
	// may be gone as soon as it has its answer. Refused is told of the call when
	// it has it. Run calls both, and no other call is answered meanwhile.
	Who     func(thread int) Who
	Refused func(c Call, who Who)
	Log     *slog.Logger

	dir    string
	dirFD  int
	socket int
	epoll  int
	what   map[int]role
	pace   pace

	mu   sync.Mutex // of stop, which others than Run use
	stop int        // an eventfd, -1 when it is closed
}

// Who made a call: a process, as the caller of Run counts, and its program's name.
type Who struct {
	Pid     int
	Program string
}

// role is what a descriptor of the desk is.
type role int

const (
	isStop role = iota
	isSocket
	isSender // a connection over which a listener will come
	isListener
)

// Open makes a desk with its socket in a directory of its own, which must not be
// there yet, and which nobody else may enter. A path to it of any length will do.
func Open(dir string) (_ *Desk, err error) {
	if err := supported(); err != nil {
		return nil, fmt.Errorf("open desk: %w", err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(dir), 0o700), os.Mkdir(dir, 0o700)); err != nil {
		return nil, fmt.Errorf("open desk: %w", err)
	}
	d := &Desk{Log: slog.New(slog.DiscardHandler), dir: dir, dirFD: -1, socket: -1, epoll: -1, stop: -1, what: map[int]role{}, pace: pace{now: time.Now}}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open desk: %w", err), d.Close())
		}
	}()
	if d.dirFD, err = unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	if d.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if d.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	if d.socket, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err := unix.Bind(d.socket, &unix.SockaddrUnix{Name: d.Path()}); err != nil {
		return nil, os.NewSyscallError("bind", err)
	}
	if err := unix.Listen(d.socket, backlog); err != nil {
		return nil, os.NewSyscallError("listen", err)
	}
	if err := errors.Join(d.watch(d.stop, isStop), d.watch(d.socket, isSocket)); err != nil {
		return nil, err
	}
	return d, nil
}

// Path is the socket's, for this process only. It is short whatever the
// directory is called: a socket's name has 107 bytes.
func (d *Desk) Path() string {
	return filepath.Join("/proc/self/fd", strconv.Itoa(d.dirFD), name)
}

func (d *Desk) watch(fd int, r role) error {
	if err := unix.EpollCtl(d.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	d.what[fd] = r
	return nil
}

// drop closes a descriptor, which takes it out of the epoll as well: nobody else
// has it.
func (d *Desk) drop(fd int) {
	delete(d.what, fd)
	if err := unix.Close(fd); err != nil {
		d.Log.Warn("close", "op", "calls.drop", "err", err)
	}
}

// Stop has Run return. It may be called at any time, and often.
func (d *Desk) Stop() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stop < 0 {
		return nil
	}
	if _, err := unix.Write(d.stop, []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		return os.NewSyscallError("write eventfd", err)
	}
	return nil
}

// Close gives up every listener: calls that wait for an answer, and those to
// come, fail with ENOSYS. Run must have returned.
func (d *Desk) Close() error {
	for fd, r := range d.what {
		if r == isSender || r == isListener {
			d.drop(fd)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, fd := range []*int{&d.socket, &d.stop, &d.epoll, &d.dirFD} {
		if *fd >= 0 {
			_ = unix.Close(*fd)
		}
		*fd = -1
	}
	return Remove(d.dir)
}

// Remove removes what a desk that was not closed has left. What is not there is
// no error.
func Remove(dir string) error {
	if err := fdtree.Cleanup(dir); err != nil {
		return fmt.Errorf("remove desk: %w", err)
	}
	return nil
}
