package branches

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"polis/daemon/git"
	"polis/fusefs/pathset"
	"polis/internal/pause"
)

const listTime = 2 * time.Minute

// TrackedKeeper keeps the set of one workspace. Set the fields, then Open; Close ends it.
type TrackedKeeper struct {
	Repo     git.Repo
	Branches *Follower // open from before Open until after Close
	// File is what shims read; it is replaced whole.
	File string
	// Charge has the git commands of a context charged to an agent; nil charges none.
	Charge func(ctx context.Context, agent string) context.Context
	Log    *slog.Logger

	cancel context.CancelFunc
	done   chan struct{}

	// The worker's.
	written string // the tips the file is of
	base    *pathset.Builder
	onto    string
	added   map[string]*pathset.Builder // what a tip adds to onto
}

// Open begins to keep the set.
func (k *TrackedKeeper) Open(ctx context.Context) {
	k.done, k.added = make(chan struct{}), map[string]*pathset.Builder{}
	ctx, k.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go k.work(ctx)
}

// Close ends the keeper and waits for its git. The file stays.
func (k *TrackedKeeper) Close() {
	k.cancel()
	<-k.done
}

func (k *TrackedKeeper) work(ctx context.Context) {
	defer close(k.done)
	moved := k.Branches.Moved()
	failed := false
	for {
		var later <-chan time.Time
		if failed {
			later = time.After(again)
		}
		select {
		case <-ctx.Done():
			return
		case <-moved:
		case <-later:
		}
		began := time.Now()
		lctx, cancel := context.WithTimeout(ctx, listTime)
		err := k.refresh(lctx)
		cancel()
		if failed = err != nil && ctx.Err() == nil; failed {
			k.Log.Warn("set of tracked paths not updated", "op", "tracked", "err", err)
		}
		if !pause.Worker(ctx, began, maxRest) {
			return
		}
	}
}

// refresh writes the set again if a branch has moved. A branch that cannot be read is left out:
// that affects only its own agent.
func (k *TrackedKeeper) refresh(ctx context.Context) error {
	now, err := k.Branches.Last(ctx)
	if err != nil {
		return err
	}
	onto := now.Onto
	tips := map[string]string{} // to an agent whose branch is there
	for _, a := range now.Agents {
		if tip := now.Of[a.Name]; tip != "" && tip != onto && tips[tip] == "" {
			tips[tip] = a.Name
		}
	}
	sorted := slices.Sorted(maps.Keys(tips))
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
			b, err := k.list(k.charged(ctx, tips[tip]), "diff-tree", "-r", "-z", "--name-only", "--no-renames", "--diff-filter=A", onto, tip)
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
		if tips[tip] == "" {
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

func (k *TrackedKeeper) charged(ctx context.Context, agent string) context.Context {
	if k.Charge == nil {
		return ctx
	}
	return k.Charge(ctx, agent)
}

// list collects the names that a git command prints, NUL after each.
func (k *TrackedKeeper) list(ctx context.Context, args ...string) (*pathset.Builder, error) {
	n := trackedNames{b: &pathset.Builder{}}
	if _, err := k.Repo.Do(ctx, git.Cmd{Args: args, Stdout: &n, Timeout: listTime}); err != nil {
		return nil, err
	}
	if len(n.part) > 0 {
		return nil, errors.New("git's list ends in the middle of a name")
	}
	return n.b, nil
}

// trackedNames takes names with a NUL after each.
type trackedNames struct {
	b    *pathset.Builder
	part []byte
}

// maxName bounds one name, in bytes.
const maxName = 1 << 20

func (n *trackedNames) Write(p []byte) (int, error) {
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
func (k *TrackedKeeper) write(b []byte) error {
	tmp := k.File + ".new"
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return fmt.Errorf("write the set of tracked paths: %w", err)
	}
	if err := os.Rename(tmp, k.File); err != nil {
		return fmt.Errorf("write the set of tracked paths: %w", err)
	}
	return nil
}
