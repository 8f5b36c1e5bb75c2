package unotify

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// acceptAgain is how long what cannot be taken is left to wait.
const acceptAgain = 100 * time.Millisecond

// Run refuses calls until Stop. An error says that it cannot go on: who makes a
// call that is asked about waits until Close.
func (d *Desk) Run() error {
	events := make([]unix.EpollEvent, 32)
	for {
		n, err := unix.EpollWait(d.epoll, events, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return os.NewSyscallError("epoll_wait", err)
		}
		for _, e := range events[:n] {
			fd := int(e.Fd)
			r, ours := d.what[fd]
			switch {
			case !ours: // closed by an event before
			case r == isStop:
				return nil
			case r == isSocket:
				err = d.accept()
			case r == isSender:
				d.takeListener(fd)
			case e.Events&unix.EPOLLIN != 0:
				d.answer(fd)
			case e.Events&unix.EPOLLHUP != 0: // the last process with the filter has ended
				d.drop(fd)
			}
			// EPOLLERR alone says that a signal came while the kernel looked.
		}
		if err = errors.Join(err, d.rest()); err != nil {
			return err
		}
	}
}

// answer refuses one call of a listener: the others have their turn next.
func (d *Desk) answer(fd int) {
	c, err := receive(fd)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINTR) {
		return // the caller was killed, or a signal has it ask again
	}
	if err != nil {
		// Whatever it is, it would be so for ever. The kernel refuses from here on.
		d.Log.Error("refused system calls of a process are not told of any more", "op", "calls.receive", "err", err)
		d.drop(fd)
		return
	}
	var who Who
	if d.Who != nil {
		who = d.Who(c.Thread)
	}
	if err := refuse(fd, c.ID); err != nil && !errors.Is(err, unix.ENOENT) {
		d.Log.Error("refused system calls of a process are not told of any more", "op", "calls.refuse", "err", err)
		d.drop(fd)
	}
	d.pace.spend()
	if d.Refused != nil {
		d.Refused(c, who)
	}
}

// accept takes a connection of this very process, as which libcontainer connects.
func (d *Desk) accept() error {
	fd, _, err := unix.Accept4(d.socket, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR), errors.Is(err, unix.ECONNABORTED):
		return nil
	case err != nil:
		// No descriptor is left, or no memory: it goes on waiting to be taken.
		d.Log.Warn("take a connection", "op", "calls.accept", "err", err)
		return d.wait(acceptAgain)
	}
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err == nil && int(cred.Pid) != os.Getpid() {
		err = fmt.Errorf("it is of process %d", cred.Pid)
	}
	if err == nil {
		err = d.watch(fd, isSender)
	}
	if err != nil {
		d.Log.Warn("a connection is not taken", "op", "calls.accept", "err", err)
		_ = unix.Close(fd)
	}
	return nil
}

// takeListener takes the listener that comes with the first message of a
// connection. What the message says is not looked at.
func (d *Desk) takeListener(conn int) {
	text, oob := make([]byte, 4096), make([]byte, unix.CmsgSpace(4*8))
	_, n, _, _, err := unix.Recvmsg(conn, text, oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return
	}
	d.drop(conn)
	if err == nil {
		err = d.add(oob[:n])
	}
	if err != nil {
		d.Log.Warn("refused system calls of a process are not told of", "op", "calls.listener", "err", err)
	}
}

// add keeps the listener of a message; all that is not kept is closed.
func (d *Desk) add(oob []byte) error {
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
		if err = d.watch(fds[0], isListener); err == nil {
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
