package setup

import (
	"context"
	"fmt"
	"slices"
	"time"

	"polis/daemon/api"
	"polis/daemon/store/layout"
)

// Key returns the key of a git tree under the rules of now; "" if it has none of the input files.
func (w *Worker) Key(ctx context.Context, tree string) (string, error) {
	rules := w.Rules()
	in := Inputs{Run: *rules.Run, Patterns: rules.Inputs, Environment: w.Environment()}
	of := fmt.Sprintf("%q", in)
	w.mu.Lock()
	if w.keysOf != of || len(w.keys) >= maxKeys {
		w.keys, w.keysOf = map[string]string{}, of
	}
	key, known := w.keys[tree]
	w.mu.Unlock()
	if known {
		return key, nil
	}
	key, err := in.Key(ctx, tree, w.Files)
	if err != nil {
		return "", fmt.Errorf("read the inputs of the setup: %w", err)
	}
	w.mu.Lock()
	if w.keysOf == of {
		w.keys[tree] = key
	}
	w.mu.Unlock()
	return key, nil
}

// Claim calls claim with what was made for a git tree. If it is missing, claim is not called, and it
// is made in the background.
func (w *Worker) Claim(ctx context.Context, tree string, claim func(Record) error) error {
	missing, err := w.claim(ctx, tree, claim)
	if missing && err == nil {
		w.Want(tree)
	}
	return err
}

// ClaimMade calls claim with what was made for a git tree, if there is anything.
func (w *Worker) ClaimMade(ctx context.Context, tree string, claim func(Record) error) error {
	_, err := w.claim(ctx, tree, claim)
	return err
}

// claim reports whether there should be files and are none.
func (w *Worker) claim(ctx context.Context, tree string, claim func(Record) error) (missing bool, err error) {
	if !w.enabled() {
		return false, nil
	}
	key, err := w.Key(ctx, tree)
	if err != nil || key == "" {
		return false, err
	}
	found, err := w.Store.Claim(ctx, key, claim)
	return !found, err
}

// Await waits until there is a result for a git tree, or its run failed: then the error is that of
// the run. how says when the command runs.
func (w *Worker) Await(ctx context.Context, tree string, how How) error {
	w.mu.Lock()
	waiting := 0
	for _, r := range w.queue {
		waiting += r.waiting
	}
	if waiting >= maxAwaited {
		w.mu.Unlock()
		return api.Errorf(api.CodeSetupFailed, "%d callers wait for setup commands already", waiting).WithHint("wait until they have ended")
	}
	r := w.add(tree, how, true)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		r.waiting--
		w.mu.Unlock()
	}()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return api.Errorf(api.CodeTimeout, "wait for the setup command: %w", context.Cause(ctx))
	case <-w.done:
	}
	select {
	case <-r.done:
		return r.err
	default: // it was queued when the worker had ended
		return errEnds
	}
}

// Collect removes results that nothing needs, and returns their ids.
func (w *Worker) Collect(ctx context.Context) ([]string, error) {
	current := ""
	if w.enabled() {
		tree, err := w.Target(ctx)
		if err == nil {
			current, err = w.Key(ctx, tree)
		}
		if err != nil {
			return nil, err
		}
	}
	return w.Store.Collect(ctx, current, *w.Rules().Keep, w.Trees.SetupsUsed)
}

// Maintain compares the results with their checksums, makes damaged ones that are needed again, and
// removes those that are not needed.
func (w *Worker) Maintain(ctx context.Context) error {
	damaged, err := w.Store.Verify(ctx, verifyAge)
	for _, r := range damaged {
		w.Publish(api.Event{Type: api.EventSetupFailed, Code: api.CodeSetupFailed, Message: fmt.Sprintf("a result of the setup of workspace %s is damaged: %s; new agents do not get it", w.Workspace, r.Damaged),
			Data: map[string]any{"workspace": w.Workspace, "id": r.ID}})
	}
	if err != nil {
		return err
	}
	if _, err := w.Collect(ctx); err != nil {
		return err
	}
	w.wantTarget(ctx)
	return nil
}

// Status describes the setup of the workspace.
func (w *Worker) Status(ctx context.Context) (api.Setup, error) {
	rules := w.Rules()
	out := api.Setup{Workspace: w.Workspace, Run: *rules.Run, Inputs: append([]string{}, rules.Inputs...), State: api.SetupOff, Results: []api.SetupResult{}}
	key := ""
	if w.enabled() {
		tree, err := w.Target(ctx)
		if err == nil {
			key, err = w.Key(ctx, tree)
		}
		if err != nil {
			return out, api.Errorf(api.CodeInternal, "read the setup of workspace %s: %w", w.Workspace, err)
		}
		out.State = api.SetupMissing
		if key == "" {
			out.State = api.SetupNoInputs
		}
	}
	all, err := w.Store.Results()
	if err != nil {
		return out, api.Errorf(api.CodeInternal, "%w", err)
	}
	used, err := w.Trees.SetupsUsed()
	if err != nil {
		return out, err
	}
	seen := map[string]bool{}
	for _, r := range all {
		current := key != "" && r.Key == key && r.Damaged == "" && !seen[key]
		if current {
			seen[key], out.State = true, api.SetupReady
		}
		agents := slices.DeleteFunc(append([]string{}, used[r.ID]...), func(name string) bool { return name == layout.CheckUser })
		slices.Sort(agents)
		out.Results = append(out.Results, api.SetupResult{ID: r.ID, Current: current, MadeAt: r.Made, Seconds: float64(r.Took) / 1000, Bytes: r.Bytes, Files: r.Files,
			Outputs: r.Outputs, Dropped: r.Dropped, Drops: r.Drops, Damaged: r.Damaged, Log: r.Log, Agents: agents})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if f, ok := w.failures[key]; ok && key != "" {
		at := f.at
		out.FailedAt, out.Error, out.Log = &at, f.err.Error(), f.log
		if out.State == api.SetupMissing {
			out.State = api.SetupFailed
		}
	}
	if w.running != nil {
		began := w.began
		out.RunningSince = &began
		if out.State == api.SetupMissing || out.State == api.SetupFailed {
			out.State = api.SetupRunning
		}
	}
	out.RetryAfter = int(retryAfter / time.Second)
	return out, nil
}

// failed records a failed run.
func (w *Worker) failed(ctx context.Context, key string, rec Record, err error) error {
	if ctx.Err() != nil {
		return err // the daemon stops: the next one runs it
	}
	w.mu.Lock()
	if w.failures == nil || len(w.failures) >= maxFailures {
		w.failures = map[string]failure{}
	}
	w.failures[key] = failure{at: w.Now(), err: err, log: rec.Log}
	w.mu.Unlock()
	w.Log.Warn("setup command failed; agents start without its files", "workspace", w.Workspace, "op", "setup", "log", rec.Log, "err", err)
	w.Publish(api.Event{Type: api.EventSetupFailed, Code: api.CodeOf(err), Message: fmt.Sprintf("the setup of workspace %s failed: %v", w.Workspace, err),
		Data: map[string]any{"workspace": w.Workspace, "log": rec.Log}})
	return err
}
