package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// drainTime is how long the output is read after the command has ended: a process that left
// its group may hold it open.
const drainTime = time.Second

// Command is a program and its arguments, and how it runs.
type Command struct {
	// Argv is the program and its arguments. A program without a slash is found in PATH.
	Argv []string
	// Program is the file that runs, if it is another one than Argv[0] names.
	Program string
	// User is who it runs as; nil is the caller itself.
	User *syscall.Credential
	// Env is all of its environment. Without one it has none: that of the caller is never given.
	Env     []string
	Input   []byte
	Timeout time.Duration
	// MaxOutput bounds the output that is kept, in bytes. The rest is discarded.
	MaxOutput int
	// Errors: standard error is a part of the output; else it is discarded.
	Errors bool
}

// result is what Run returns.
type result struct {
	output   []byte
	complete bool
	err      error
}

// Run runs the command and returns the beginning of what it printed. complete reports whether that is all.
// It returns at the latest endTime after the timeout or the end of ctx, with ErrUnended if the command runs on then.
func (c Command) Run(ctx context.Context) (output []byte, complete bool, err error) {
	uid := uint32(os.Geteuid())
	if c.User != nil {
		uid = c.User.Uid
	}
	if left.has(uid) {
		return nil, false, fmt.Errorf("not started: a command of user %d before it was killed: %w", uid, ErrUnended)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("it did not end in %s", c.Timeout))
	defer cancel()
	var r result
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.output, r.complete, r.err = c.run(ctx)
	}()
	select {
	case <-ended:
		return r.output, r.complete, r.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(endTime)
	defer timer.Stop()
	select {
	case <-ended:
		return r.output, r.complete, r.err
	case <-timer.C:
	}
	left.add(uid, ended)
	return nil, false, fmt.Errorf("%w: %w", context.Cause(ctx), ErrUnended)
}

// run runs the command and reaps it, whenever it ends. It is killed at the end of ctx.
func (c Command) run(ctx context.Context) (output []byte, complete bool, err error) {
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...) //nolint:forbidigo // the administrator's own command, as the user that the caller has decided on
	if c.Program != "" {
		cmd.Path, cmd.Err = c.Program, nil
	}
	cmd.Dir = "/"
	cmd.Env = append([]string{}, c.Env...) // nil would be polisd's
	// A session of its own: it must not read from the terminal that started polisd.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: c.User}
	cmd.WaitDelay = drainTime
	cmd.Stdin = bytes.NewReader(c.Input)
	out := &bounded{left: c.MaxOutput}
	cmd.Stdout = out
	if c.Errors {
		cmd.Stderr = out
	} else {
		cmd.Stderr = io.Discard
	}
	cmd.Cancel = func() error { return killGroup(cmd.Process.Pid) }
	if err := cmd.Start(); err != nil {
		return nil, false, err
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
	return out.buf.Bytes(), !out.lost, errors.Join(err, werr)
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
	lost bool
}

func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), b.left)
	b.buf.Write(p[:n])
	b.left -= n
	b.lost = b.lost || n < len(p)
	return len(p), nil
}
