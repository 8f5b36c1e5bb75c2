package totals

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"polis/daemon/api"
	"polis/daemon/config"
)

// Limits are the limits of all agents together; 0 is no limit.
type Limits struct {
	MemoryBytes, Pids, CPUPercent int64
}

// Of returns the limits that a configuration sets.
func Of(c config.Config) Limits {
	t := c.Limits.Total
	return Limits{MemoryBytes: int64(t.MemoryMB) << 20, Pids: int64(t.Pids), CPUPercent: int64(t.CPU)}
}

// Totals applies the limits. Set the fields, then use it.
type Totals struct {
	// Wanted returns the limits that are configured now.
	Wanted func() Limits
	// Set sets the limits in the kernel, the zero Limits to lift them.
	Set func(context.Context, Limits) error
	// Mark is the path of the mark file.
	Mark string

	mu    sync.Mutex
	fault atomic.Pointer[string]
}

// Apply applies the configured limits. The kernel removes an empty control group with the last
// agent, so they are applied again with every agent.
func (t *Totals) Apply(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.apply(ctx)
}

// apply is Apply. t.mu is held.
func (t *Totals) apply(ctx context.Context) error {
	l := t.Wanted()
	none := l == Limits{}
	_, err := os.Stat(t.Mark)
	if none && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// The mark comes first: limits without one would stay.
	if err := os.WriteFile(t.Mark, nil, 0o600); err != nil {
		return fmt.Errorf("limits of all agents: %w", err)
	}
	if err := t.Set(ctx, l); err != nil {
		return api.Errorf(api.CodeCgroupFailed, "limits of all agents: %w", err).WithHint("see [limits.total] in polisd.toml; polisctl doctor shows the available control groups")
	}
	if none {
		return os.Remove(t.Mark)
	}
	return nil
}

// Reload applies the limits after the configuration has changed. Fault returns what failed until it
// succeeds. A limit below the present use is applied with the next agent.
func (t *Totals) Reload(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.apply(ctx)
	fault := ""
	if err != nil {
		fault = err.Error()
	}
	t.fault.Store(&fault)
	return err
}

// Fault returns why the last Reload failed, "" if it did not. It waits for nothing.
func (t *Totals) Fault() string {
	if f := t.fault.Load(); f != nil {
		return *f
	}
	return ""
}

// Lift lifts the limits when no agent is left.
func (t *Totals) Lift(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, err := os.Stat(t.Mark); err != nil {
		return nil //nolint:nilerr // none were set
	}
	return errors.Join(t.Set(ctx, Limits{}), os.Remove(t.Mark))
}
