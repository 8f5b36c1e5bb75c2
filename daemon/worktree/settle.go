package worktree

import (
	"context"
	"io"
	"time"

	"polis/daemon/api"
)

// maxSettle bounds the wait of Settle: times are compared in seconds.
const maxSettle = 2 * time.Second

// Settle writes an agent's index again if it is as old as one of its files for which asked returns true. Git
// compares the content of such a file in every command (racy-git in git's technical documentation), which an
// agent may not read before a person approves it. The agent must be stopped.
func (w *Workspace) Settle(ctx context.Context, agent string, v View, asked func(path string) bool) error {
	fail := func(err error) error {
		return api.Errorf(api.CodeWorktreeFailed, "settle the index of agent %s: %w", agent, err)
	}
	f, fi, err := w.Index(agent)
	if err != nil {
		return fail(err)
	}
	defer f.Close()
	if fi.Size() > maxIndex {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(f, maxIndex))
	if err != nil {
		return fail(err)
	}
	x, err := parseIndex(text)
	if err != nil {
		return nil //nolint:nilerr // git asks about files that it need not read
	}
	var newest int64
	for i := range x.Entries {
		if at := x.Modified(i); at >= fi.ModTime().Unix() && asked(x.Entries[i].Name) {
			newest = max(newest, at)
		}
	}
	if newest == 0 {
		return nil
	}
	if wait := time.Until(time.Unix(newest+1, 0)); wait > maxSettle {
		return nil // a time to come
	} else if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return fail(context.Cause(ctx))
		}
	}
	if _, err := w.Bare().Do(ctx, w.cmd(agent, v, "", "update-index", "-q", "--force-write-index")); err != nil {
		return fail(err)
	}
	return nil
}
