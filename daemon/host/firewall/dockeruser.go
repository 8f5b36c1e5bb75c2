package firewall

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

const (
	// Program is found by the PATH of polisd.
	Program = "iptables"
	// chain is documented by Docker: packets pass it before Docker's own rules, and Docker never changes it.
	chain = "DOCKER-USER"
	// comment marks the rules as ours.
	comment = "polis"
	// commandTime bounds one command; it waits for the lock of others for lockSeconds.
	commandTime = 10 * time.Second
	lockSeconds = "5"
)

// DockerUser keeps the rules for a bridge in DOCKER-USER.
type DockerUser struct {
	Bridge string
	// Program is iptables, if not "".
	Program string
}

// rules accept what comes from the bridge, and the answers to it. What agents may reach is decided before, by polis'
// own rules; between agents nothing passes.
func (u DockerUser) rules() [][]string {
	return [][]string{
		{"-i", u.Bridge, "-m", "comment", "--comment", comment, "-j", "ACCEPT"},
		{"-o", u.Bridge, "-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED", "-m", "comment", "--comment", comment, "-j", "ACCEPT"},
	}
}

// Ensure inserts the rules that are missing, and reports whether it did. Without Docker's chain it does nothing.
func (u DockerUser) Ensure(ctx context.Context) (changed bool, err error) {
	if !u.chainExists(ctx) {
		return false, nil
	}
	for _, r := range u.rules() {
		if u.run(ctx, append([]string{"-C", chain}, r...)...) == nil {
			continue
		}
		if err := u.run(ctx, append([]string{"-I", chain}, r...)...); err != nil {
			return changed, fmt.Errorf("accept packets of agents in %s: %w", chain, err)
		}
		changed = true
	}
	return changed, nil
}

// Remove deletes the rules; missing ones are success.
func (u DockerUser) Remove(ctx context.Context) error {
	if !u.chainExists(ctx) {
		return nil
	}
	var errs []error
	for _, r := range u.rules() {
		if u.run(ctx, append([]string{"-C", chain}, r...)...) != nil {
			continue
		}
		if err := u.run(ctx, append([]string{"-D", chain}, r...)...); err != nil {
			errs = append(errs, fmt.Errorf("remove rules from %s: %w", chain, err))
		}
	}
	return errors.Join(errs...)
}

func (u DockerUser) chainExists(ctx context.Context) bool {
	return u.run(ctx, "-n", "-L", chain) == nil
}

func (u DockerUser) run(ctx context.Context, args ...string) error {
	program := u.Program
	if program == "" {
		program = Program
	}
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, slices.Concat([]string{"-w", lockSeconds}, args)...) //nolint:forbidigo // a program of the system with constant arguments and the name of our own bridge
	cmd.Dir, cmd.WaitDelay = "/", time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, line)
	}
	return nil
}
