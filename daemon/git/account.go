package git

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
)

// Account is charged for the memory of a command: a control group with a limit.
type Account interface {
	// Enter moves a process that has just started there. leave is called when the
	// process has ended; it returns what of the account's limits was exceeded meanwhile,
	// in words that follow "out of memory: ", or "".
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

// charge moves a started command to the account of ctx. A command that cannot be charged is
// killed: it may be one that exceeds the account's limit.
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
