package unotify

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// acceptAgain is the pause after an accept that failed.
const acceptAgain = 100 * time.Millisecond

// Run refuses calls until Stop. After an error, callers wait until Close.
func (s *Supervisor) Run() error {
	events := make([]unix.EpollEvent, 32)
	for {
		n, err := unix.EpollWait(s.epoll, events, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return os.NewSyscallError("epoll_wait", err)
		}
		for _, e := range events[:n] {
			fd := int(e.Fd)
			r, ours := s.what[fd]
			switch {
			case !ours: // closed by an earlier event
			case r == roleStop:
				return nil
			case r == roleSocket:
				err = s.accept()
			case r == roleConn:
				s.takeListener(fd)
			case e.Events&unix.EPOLLIN != 0:
				s.answer(fd)
			case e.Events&unix.EPOLLHUP != 0: // the last process with the filter has ended
				s.drop(fd)
			}
			// EPOLLERR alone: a signal arrived while the kernel polled.
		}
		if err = errors.Join(err, s.rest()); err != nil {
			return err
		}
	}
}

// answer refuses one call of a listener: the others have their turn next.
func (s *Supervisor) answer(fd int) {
	c, err := receive(fd)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINTR) {
		return // the caller was killed, or a signal makes it call again
	}
	if err != nil {
		// The error is permanent. The kernel refuses from here on.
		s.Log.Error("denied system calls of a process are no longer audited", "op", "calls.receive", "err", err)
		s.drop(fd)
		return
	}
	var caller Caller
	if s.Identify != nil {
		caller = s.Identify(c.Thread)
	}
	if err := refuse(fd, c.ID); err != nil && !errors.Is(err, unix.ENOENT) {
		s.Log.Error("denied system calls of a process are no longer audited", "op", "calls.refuse", "err", err)
		s.drop(fd)
	}
	s.pace.spend()
	if s.Refused != nil {
		s.Refused(c, caller)
	}
}

// accept takes a connection of this very process, from which libcontainer connects.
func (s *Supervisor) accept() error {
	fd, _, err := unix.Accept4(s.socket, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR), errors.Is(err, unix.ECONNABORTED):
		return nil
	case err != nil:
		// Out of descriptors or memory: the connection stays in the backlog.
		s.Log.Warn("seccomp listener connection not accepted", "op", "calls.accept", "err", err)
		return s.wait(acceptAgain)
	}
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err == nil && int(cred.Pid) != os.Getpid() {
		err = fmt.Errorf("it is of process %d", cred.Pid)
	}
	if err == nil {
		err = s.watch(fd, roleConn)
	}
	if err != nil {
		s.Log.Warn("seccomp listener connection refused", "op", "calls.accept", "err", err)
		_ = unix.Close(fd)
	}
	return nil
}

// takeListener takes the listener that comes with the first message of a connection. It ignores
// the message's content.
func (s *Supervisor) takeListener(conn int) {
	text, oob := make([]byte, 4096), make([]byte, unix.CmsgSpace(4*8))
	_, n, _, _, err := unix.Recvmsg(conn, text, oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return
	}
	s.drop(conn)
	if err == nil {
		err = s.add(oob[:n])
	}
	if err != nil {
		s.Log.Warn("denied system calls of a process are not audited", "op", "calls.listener", "err", err)
	}
}

// add keeps the listener of a message and closes every other descriptor.
func (s *Supervisor) add(oob []byte) error {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return fmt.Errorf("receive listener: %w", err)
	}
	var fds []int
	for i := range msgs {
		if got, err := unix.ParseUnixRights(&msgs[i]); err == nil {
			fds = append(fds, got...)
		}
	}
	if len(fds) == 1 {
		if err = s.watch(fds[0], roleListener); err == nil {
			return nil
		}
	} else {
		err = fmt.Errorf("receive listener: %d descriptors", len(fds))
	}
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
	return err
}
