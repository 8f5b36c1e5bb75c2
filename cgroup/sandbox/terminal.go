package sandbox

import (
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// terminal is the pair of sockets over which a new terminal is handed out.
type terminal struct{ ours, theirs *os.File }

func newTerminal() (*terminal, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	return &terminal{ours: os.NewFile(uintptr(fds[0]), "console"), theirs: os.NewFile(uintptr(fds[1]), "console")}, nil
}

func (t *terminal) close() { _, _ = t.ours.Close(), t.theirs.Close() }

// receive takes the terminal. It was sent before Start returned, so it does not block; a missing
// message never comes.
func (t *terminal) receive() (*os.File, error) {
	name := make([]byte, 4096)
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := unix.Recvmsg(int(t.ours.Fd()), name, oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	if err != nil {
		return nil, os.NewSyscallError("recvmsg", err)
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(msgs) != 1 {
		return nil, fmt.Errorf("no terminal came: %d messages: %w", len(msgs), errors.Join(err, unix.EPROTO))
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) != 1 || fds[0] > math.MaxInt32 {
		return nil, fmt.Errorf("no terminal came: %w", errors.Join(err, unix.EPROTO))
	}
	// Non-blocking, so that a Close ends a Read.
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, errors.Join(os.NewSyscallError("fcntl", err), unix.Close(fds[0]))
	}
	return os.NewFile(uintptr(fds[0]), string(name[:n])), nil
}
