package tracked

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"polis/daemon/git"
	"polis/daemon/refwatch"
	"polis/fusefs/pathset"
)

const (
	settle    = 50 * time.Millisecond // one git command moves several refs
	rest      = 4                     // times what a look took
	maxRest   = 10 * time.Second
	again     = 10 * time.Second // after a look that failed
	blindLook = 5 * time.Second  // between looks if the kernel reports nothing
	lookTime  = 2 * time.Minute
)

// Keeper keeps the set of one workspace. Set the fields, then Open; Close ends it.
type Keeper struct {
	Repo   git.Repo
	Target func(context.Context) (string, error) // short name of the target branch
	// File is what shims read; it is replaced whole.
	File string
	Log  *slog.Logger

	cancel context.CancelFunc
	done   chan struct{}
	wake   chan struct{}

	mu       sync.Mutex
	branches []string // short

	// The worker's.
	written string // the tips the file is of
	base    *pathset.Builder
	onto    string
	added   map[string]*pathset.Builder // what a tip adds to onto
}

// Open begins to keep the set.
func (k *Keeper) Open(ctx context.Context) {
	k.wake, k.done, k.added = make(chan struct{}, 1), make(chan struct{}), map[string]*pathset.Builder{}
	ctx, k.cancel = context.WithCancel(context.WithoutCancel(ctx))
	k.rouse()
	go k.work(ctx)
}

// Close ends the keeper and waits for its git. The file stays.
func (k *Keeper) Close() {
	k.cancel()
	<-k.done
}

// SetBranches says which branches count besides the target, by their short names.
func (k *Keeper) SetBranches(names []string) {
	names = slices.Sorted(slices.Values(names))
	k.mu.Lock()
	same := slices.Equal(names, k.branches)
	k.branches = names
	k.mu.Unlock()
	if !same {
		k.rouse()
	}
}

func (k *Keeper) rouse() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func (k *Keeper) work(ctx context.Context) {
	defer close(k.done)
	watch, err := refwatch.Open(k.Repo.Dir)
	var moved <-chan struct{}
	if err != nil {
		k.Log.Warn("branches are looked at every few seconds instead of watched", "op", "tracked", "err", err)
	} else {
		moved = watch.Moved()
		defer func() {
			if err := watch.Close(); err != nil {
				k.Log.Warn("watch of branches not ended", "op", "tracked", "err", err)
			}
		}()
	}
	failed := false
	for {
		var later <-chan time.Time
		switch {
		case failed:
			later = time.After(again)
		case watch == nil || watch.Blind():
			later = time.After(blindLook)
		}
		select {
		case <-ctx.Done():
			return
		case <-k.wake:
		case <-moved:
		case <-later:
		}
		if !sleep(ctx, settle) {
			return
		}
		began := time.Now()
		lctx, cancel := context.WithTimeout(ctx, lookTime)
		err := k.refresh(lctx)
		cancel()
		if failed = err != nil && ctx.Err() == nil; failed {
			k.Log.Warn("set of tracked paths not updated", "op", "tracked", "err", err)
		}
		if !sleep(ctx, min(rest*time.Since(began), maxRest)) {
			return
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// refresh writes the set again if a branch has moved. A branch that cannot be read is left out:
// that affects only its own agent.
func (k *Keeper) refresh(ctx context.Context) error {
	target, err := k.Target(ctx)
	if err != nil {
		return fmt.Errorf("read the target branch: %w", err)
	}
	k.mu.Lock()
	names := []string{git.Branch(target)}
	for _, b := range k.branches {
		names = append(names, git.Branch(b))
	}
	k.mu.Unlock()
	refs, err := k.Repo.Refs(ctx, names...)
	if err != nil {
		return fmt.Errorf("read the branches: %w", err)
	}
	onto := refs[names[0]]
	if onto == "" {
		return fmt.Errorf("the target branch %s does not exist", target)
	}
	tips := map[string]bool{}
	for _, n := range names[1:] {
		if tip := refs[n]; tip != "" && tip != onto {
			tips[tip] = true
		}
	}
	sorted := make([]string, 0, len(tips))
	for tip := range tips {
		sorted = append(sorted, tip)
	}
	slices.Sort(sorted)
	state := fmt.Sprint(onto, sorted)
	if state == k.written {
		return nil
	}
	if k.onto != onto || k.base == nil {
		base, err := k.list(ctx, "ls-tree", "-r", "-z", "--name-only", onto)
		if err != nil {
			return fmt.Errorf("list the target branch: %w", err)
		}
		k.base, k.onto = base, onto
		clear(k.added)
	}
	all := &pathset.Builder{}
	all.AddAll(k.base)
	var failed error
	for _, tip := range sorted {
		if k.added[tip] == nil {
			b, err := k.list(ctx, "diff-tree", "-r", "-z", "--name-only", "--no-renames", "--diff-filter=A", onto, tip)
			if err != nil {
				if ctx.Err() != nil {
					return err
				}
				failed = fmt.Errorf("list what commit %s adds: %w", tip, err)
				continue
			}
			k.added[tip] = b
		}
		all.AddAll(k.added[tip])
	}
	for tip := range k.added {
		if !tips[tip] {
			delete(k.added, tip)
		}
	}
	if err := k.write(all.Bytes()); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	k.written = state
	return nil
}

// list collects the names that a git command prints, NUL after each.
func (k *Keeper) list(ctx context.Context, args ...string) (*pathset.Builder, error) {
	n := names{b: &pathset.Builder{}}
	if _, err := k.Repo.Do(ctx, git.Cmd{Args: args, Stdout: &n, Timeout: lookTime}); err != nil {
		return nil, err
	}
	if len(n.part) > 0 {
		return nil, errors.New("git's list ends in the middle of a name")
	}
	return n.b, nil
}

// names is a writer of names with a NUL after each.
type names struct {
	b    *pathset.Builder
	part []byte
}

// maxName bounds one name, in bytes.
const maxName = 1 << 20

func (n *names) Write(p []byte) (int, error) {
	size := len(p)
	for {
		name, after, ok := bytes.Cut(p, []byte{0})
		if !ok {
			break
		}
		n.b.Add(string(append(n.part, name...)))
		n.part, p = n.part[:0], after
	}
	if n.part = append(n.part, p...); len(n.part) > maxName {
		return 0, errors.New("a name has more than a megabyte")
	}
	return size, nil
}

// write replaces the file.
func (k *Keeper) write(b []byte) error {
	tmp := k.File + ".new"
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return fmt.Errorf("write the set of tracked paths: %w", err)
	}
	if err := os.Rename(tmp, k.File); err != nil {
		return fmt.Errorf("write the set of tracked paths: %w", err)
	}
	return nil
}
