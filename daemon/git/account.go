package git

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
)

// Account is the control group whose memory limit a command is charged to.
type Account interface {
	// Enter moves a started process to the account. The caller calls leave when the process has
	// exited. leave returns the limit that was exceeded, as text that follows "out of memory: ",
	// or "".
	Enter(pid int) (leave func() (exceeded string), err error)
}

type accountKey struct{}

// Charged returns a context whose commands are charged to an account.
func Charged(ctx context.Context, a Account) context.Context {
	if a == nil {
		return ctx
	}
	return context.WithValue(ctx, accountKey{}, a)
}

// charge moves a started command to the account of ctx. It kills a command that cannot be charged:
// the command could exceed the account's limit.
func charge(ctx context.Context, cmd *exec.Cmd) (leave func() string, err error) {
	a, ok := ctx.Value(accountKey{}).(Account)
	if !ok {
		return func() string { return "" }, nil
	}
	if leave, err = a.Enter(cmd.Process.Pid); err == nil {
		return leave, nil
	}
	if kerr := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); kerr != nil && !errors.Is(kerr, syscall.ESRCH) {
		err = errors.Join(err, kerr)
	}
	_ = cmd.Wait() //nolint:errcheck // it was killed
	return nil, fmt.Errorf("charge git: %w", err)
}
