package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/git"
)

// Bounds of a command.
const (
	DefaultTimeout = 30 * time.Second
	maxInput       = 256 << 10 // bytes of the event as JSON
	maxOutput      = 4 << 10   // bytes of the output that is kept
	// drainTime is how long the output is read after the command has ended: a process that left
	// its group may hold it open.
	drainTime = time.Second
)

// User is who a command runs as.
type User struct {
	UID, GID uint32
	Home     string // absolute
}

// Command is a program and its arguments, which the configuration has.
type Command struct {
	Argv    []string
	Timeout time.Duration // 0: DefaultTimeout
}

// Run runs the command as u and returns the beginning of what it printed. Its standard input is
// the event as JSON, in one line.
func (c Command) Run(ctx context.Context, u User, ev api.Event) (output string, err error) {
	if len(c.Argv) == 0 {
		return "", errors.New("there is no command")
	}
	if u.UID == 0 {
		return "", fmt.Errorf("%s is not run as root", c.Argv[0])
	}
	input, err := json.Marshal(ev)
	if err != nil {
		return "", fmt.Errorf("encode event %s: %w", ev.Type, err)
	}
	if len(input) > maxInput {
		return "", fmt.Errorf("event %s has %d bytes: at most %d", ev.Type, len(input), maxInput)
	}
	timeout := c.Timeout
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it did not end in %s", timeout))
	defer cancel()
	return c.run(ctx, u, append(input, '\n'))
}

func (c Command) run(ctx context.Context, u User, input []byte) (string, error) {
	cred, err := git.Credential(u.UID, u.GID)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...) //nolint:forbidigo // the administrator's own command, as a user that is not root
	cmd.Dir = "/"
	cmd.Env = (&git.Own{UID: u.UID, Home: u.Home}).Environ()
	// A session of its own: it must not read from the terminal that started polisd.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: cred}
	cmd.WaitDelay = drainTime
	cmd.Stdin = bytes.NewReader(input)
	out := &bounded{left: maxOutput}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return killGroup(cmd.Process.Pid) }
	if err := cmd.Start(); err != nil {
		return "", err
	}
	// What it left running ends with it. The command is not reaped yet, so the group's number is
	// still its own.
	err = errors.Join(awaitExit(cmd.Process.Pid), killGroup(cmd.Process.Pid))
	werr := cmd.Wait()
	if errors.Is(werr, exec.ErrWaitDelay) {
		werr = nil // it has ended; another process has its output
	}
	if cause := context.Cause(ctx); cause != nil {
		werr = cause
	}
	return out.String(), errors.Join(err, werr)
}

// awaitExit returns when the process has ended, and leaves it to be reaped (waitid(2)).
func awaitExit(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func killGroup(pid int) error {
	if err := syscall.Kill(-pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("end the command: %w", err)
	}
	return nil
}

// bounded keeps the first bytes and discards the rest.
type bounded struct {
	buf  bytes.Buffer
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), b.left)
	b.buf.Write(p[:n])
	b.left -= n
	return len(p), nil
}

func (b *bounded) String() string {
	return strings.TrimSpace(strings.ToValidUTF8(b.buf.String(), "?"))
}
