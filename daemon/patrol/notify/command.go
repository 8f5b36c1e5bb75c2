package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/host/command"
)

// Bounds of a command.
const (
	DefaultTimeout = 30 * time.Second
	maxInput       = 256 << 10 // bytes of the event as JSON
	maxOutput      = 4 << 10   // bytes of the output that is kept
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
	return c.run(ctx, u, append(input, '\n'), timeout)
}

func (c Command) run(ctx context.Context, u User, input []byte, timeout time.Duration) (string, error) {
	cred, err := git.Credential(u.UID, u.GID)
	if err != nil {
		return "", err
	}
	out, _, err := command.Command{Argv: c.Argv, User: cred, Env: (&git.Own{UID: u.UID, Home: u.Home}).Environ(), Input: input,
		Timeout: timeout, MaxOutput: maxOutput, Errors: true}.Run(ctx)
	return strings.TrimSpace(strings.ToValidUTF8(string(out), "?")), err
}
