package tui

import (
	"context"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
)

// tasks are the calls that run beside the screen.
type tasks struct {
	ctx context.Context

	mu    sync.Mutex
	ended bool
	wg    sync.WaitGroup
}

// cmd makes a command of f, which must return soon after its context ends.
func (t *tasks) cmd(limit time.Duration, f func(context.Context) tea.Msg) tea.Cmd {
	return func() tea.Msg {
		if !t.begin() {
			return nil
		}
		defer t.wg.Done()
		ctx, cancel := context.WithTimeout(t.ctx, limit)
		defer cancel()
		return f(ctx)
	}
}

func (t *tasks) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return false
	}
	t.wg.Add(1)
	return true
}

// wait lets no other call begin and waits for those that run.
func (t *tasks) wait() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.wg.Wait()
}
