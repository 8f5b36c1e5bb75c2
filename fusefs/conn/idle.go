package conn

import (
	"errors"
	"log/slog"
	"syscall"

	"golang.org/x/sys/unix"
)

// spin yields the processor before this reader sleeps. The caller that waited for the answer then
// runs at once, often on the same processor, and mostly sends the next request within
// microseconds: taking it needs neither a sleep nor a wake-up, which cost more than most
// requests. One reader at a time does so; on a busy machine the yields cost nothing.
func (r *reader) spin() (int, error) {
	n, err := syscall.Read(r.c.fd, r.in)
	if err != unix.EAGAIN || !r.c.lingers.CompareAndSwap(false, true) { //nolint:errorlint // the hot path; syscall.Read wraps nothing
		return n, err
	}
	defer r.c.lingers.Store(false)
	for range lingering {
		// Other threads may run for long; Go's scheduler must not wait for that.
		if _, _, e := unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0); e != 0 {
			return 0, e
		}
		if n, err = syscall.Read(r.c.fd, r.in); err != unix.EAGAIN { //nolint:errorlint // as above
			break
		}
	}
	return n, err
}

// sleep waits for a request, which another reader may then have taken. A reader with much memory
// frees it when no request comes for a while.
func (r *reader) sleep() syscall.Errno {
	wait := -1
	if r.warm > 0 {
		wait = coolWait
	}
	var n int
	var err error
	if r.epoll >= 0 || r.openEpoll() == nil {
		n, err = unix.EpollWait(r.epoll, r.events[:], wait)
	} else { // no file descriptor is available: all waiters are woken
		n, err = unix.Poll([]unix.PollFd{{Fd: int32(r.c.fd), Events: unix.POLLIN}}, wait)
	}
	switch {
	case errors.Is(err, unix.EINTR):
	case err != nil:
		r.c.log.Error("requests cannot be waited for", slog.String("op", "epoll"), slog.Any("err", err))
		return syscall.EIO
	case n == 0:
		r.warm = 0
		r.trim()
	}
	return 0
}

func (r *reader) openEpoll() error {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	if err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, r.c.fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLEXCLUSIVE}); err != nil {
		unix.Close(ep)
		return err
	}
	r.epoll = ep
	return nil
}

// trim frees memory.
func (r *reader) trim() {
	half := r.c.half()
	for _, m := range [][]byte{r.mem[page+kept : half], r.mem[half+page+kept : 2*half+page]} {
		if err := unix.Madvise(m, unix.MADV_DONTNEED); err != nil {
			r.c.log.Debug("memory not given back", slog.String("op", "madvise"), slog.Any("err", err))
		}
	}
}
