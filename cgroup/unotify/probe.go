package unotify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// probeTime bounds each step of Probe.
const probeTime = 2 * time.Second

// Probe tests whether denied calls can be reported here: a thread of this process gets a filter,
// makes a call, and is refused; and it takes a descriptor of another process, the parent, as a
// supervisor must take a filter's listener. The thread ends with its filter, which the first
// thread of a process cannot: so Probe is for a process that does nothing else.
func Probe(ctx context.Context) error {
	if err := supported(); err != nil {
		return err
	}
	if err := takeDescriptor(os.Getppid()); err != nil {
		return fmt.Errorf("take a descriptor of another process: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	listener, said := make(chan int, 1), make(chan error, 1)
	go func() {
		// Never unlocked: the thread ends with the goroutine.
		runtime.LockOSThread()
		fd, err := listen()
		if err != nil {
			said <- err
			return
		}
		listener <- fd
		// Not RawSyscall, which would keep the goroutine that answers from running.
		_, _, e := unix.Syscall(probed, 0, 0, 0)
		said <- e
	}()
	var fd int
	select {
	case err := <-said:
		return fmt.Errorf("make a filter with a listener: %w", err)
	case <-ctx.Done():
		return fmt.Errorf("make a filter with a listener: %w", context.Cause(ctx))
	case fd = <-listener:
	}
	// In every case the thread gets an answer: without a listener, ENOSYS.
	err := refuseOne(fd)
	_ = unix.Close(fd)
	select {
	case got := <-said:
		if err == nil && !errors.Is(got, unix.EPERM) {
			err = fmt.Errorf("a refused call returned %w", got)
		}
	case <-ctx.Done():
		err = errors.Join(err, context.Cause(ctx))
	}
	return err
}

// probed is a call that no other code makes on a thread of Probe.
const probed = unix.SYS_GETPPID

// listen filters one call of this thread.
func listen() (int, error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, os.NewSyscallError("prctl", err)
	}
	const ask, allow = 0x7fc00000, 0x7fff0000 // SECCOMP_RET_USER_NOTIF, SECCOMP_RET_ALLOW
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the call's number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 0, Jf: 1, K: probed},
		{Code: unix.BPF_RET | unix.BPF_K, K: ask},
		{Code: unix.BPF_RET | unix.BPF_K, K: allow},
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	fd, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(program)
	if e != 0 {
		return -1, e
	}
	return int(fd), nil
}

// refuseOne refuses the next call of a listener.
func refuseOne(fd int) error {
	timeout := unix.NsecToTimespec(int64(probeTime))
	ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Ppoll(ready, &timeout, nil)
		if errors.Is(err, unix.EINTR) || err == nil && n > 0 && ready[0].Revents&unix.POLLIN == 0 {
			continue // a signal arrived during the ioctl
		}
		if err != nil {
			return os.NewSyscallError("ppoll", err)
		}
		if n == 0 {
			return errors.New("the probed call was not reported to the listener")
		}
		c, err := receive(fd)
		if err == nil {
			err = refuse(fd, c.ID)
		}
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOENT) {
			continue // it was interrupted, and calls again
		}
		return err
	}
}

// takeDescriptor takes a duplicate of standard input of a process, and closes it. A process
// without one is success.
func takeDescriptor(pid int) error {
	p, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(p)
	fd, err := unix.PidfdGetfd(p, 0, 0)
	if errors.Is(err, unix.EBADF) {
		return nil
	}
	if err != nil {
		return os.NewSyscallError("pidfd_getfd", err)
	}
	return unix.Close(fd)
}
