package policyrecord

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"polis/daemon/api"
	"polis/daemon/host/private"
	"polis/internal/failpoint"
)

// MaxRuns bounds the runs of an agent that are stored one by one.
const MaxRuns = 16

// Book has the runs of the agents of one workspace. Assign the fields, then use it; Close ends it. It is
// safe for concurrent use.
type Book struct {
	// Dir returns the directory of an agent's files, which is made if it is missing.
	Dir func(agent string) string
	Log *slog.Logger

	mu   sync.Mutex
	open map[string]*writer // by agent
}

// writer is the run of an agent that is being written.
type writer struct {
	*run
	dir string
	f   *os.File
}

const (
	prefix = "uses-"
	suffix = ".jsonl"
)

func fileName(number int) string { return fmt.Sprintf("%s%06d%s", prefix, number, suffix) }

// numbers lists the runs in a directory, oldest first.
func numbers(dir string) (out []int, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list what was recorded: %w", err)
	}
	for _, e := range entries {
		digits, ok := strings.CutSuffix(strings.TrimPrefix(e.Name(), prefix), suffix)
		if n, err := strconv.Atoi(digits); ok && err == nil && n > 0 && e.Name() == fileName(n) {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, nil
}

// Add stores what the shim of an agent has recorded, and returns when it is on the disk. dropped is how
// many records the shim has dropped since it started. What is there already may come again.
func (b *Book) Add(agent string, h Header, list []api.Open, dropped uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	w, err := b.writer(agent, h)
	if err != nil {
		return err
	}
	lines := []line{{Dropped: dropped}}
	for _, o := range list {
		lines = append(lines, linesOf(o)...)
	}
	return b.add(agent, w, lines)
}

// End records that the shim of an agent has ended; clean: it has handed over everything. Without a run
// that has not ended there is nothing to record.
func (b *Book) End(agent string, clean bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	dir := b.Dir(agent)
	all, err := numbers(dir)
	if err != nil || len(all) == 0 {
		return err
	}
	r, _, err := readRun(dir, all[len(all)-1])
	if err != nil || r.end != "" {
		return errors.Join(err, b.drop(agent))
	}
	w, err := b.writer(agent, r.head)
	if err != nil {
		return err
	}
	end := endCut
	if clean {
		end = endClean
	}
	err = b.add(agent, w, []line{{End: end}})
	return errors.Join(err, b.drop(agent))
}

// add writes the lines that are new. b.mu is held.
func (b *Book) add(agent string, w *writer, lines []line) error {
	was := w.isCoarse()
	var fresh []line
	for _, l := range lines {
		if w.take(l) {
			fresh = append(fresh, l)
		}
	}
	var err error
	switch {
	case len(fresh) == 0:
		return nil
	case w.more || w.isCoarse() && !was || w.isCoarse() && w.size() > 2*maxTail:
		err = w.rewrite() // shorter than what was written line by line
	default:
		err = w.append(fresh)
	}
	if err != nil { // the memory is ahead of the file: the file is read again
		return errors.Join(fmt.Errorf("store what agent %s uses: %w", agent, err), b.drop(agent))
	}
	return nil
}

// writer returns the open run of a shim, which it makes if it is missing. b.mu is held.
func (b *Book) writer(agent string, h Header) (*writer, error) {
	if w := b.open[agent]; w != nil {
		if w.head.Life == h.Life {
			return w, nil
		}
		if err := b.drop(agent); err != nil {
			return nil, err
		}
	}
	dir := b.Dir(agent)
	if err := private.Dir(dir); err != nil {
		return nil, fmt.Errorf("store what agent %s uses: %w", agent, err)
	}
	all, err := numbers(dir)
	if err != nil {
		return nil, err
	}
	w := &writer{dir: dir}
	if n := len(all); n > 0 {
		switch torn, err := w.resume(all[n-1], h.Life); {
		case err != nil:
			b.Log.Warn("record of what an agent uses not continued; another one begins", "agent", agent, "err", err)
		case torn > 0:
			b.Log.Warn("incomplete entry of what an agent uses cut", "agent", agent, "path", fileName(all[n-1]), "bytes", torn)
		}
	}
	if w.run == nil {
		if err := b.fold(agent, dir, all); err != nil {
			return nil, err
		}
		number := 1
		if n := len(all); n > 0 {
			number = all[n-1] + 1
		}
		w.run = newRun(number, h)
		if err := w.rewrite(); err != nil {
			return nil, fmt.Errorf("store what agent %s uses: %w", agent, err)
		}
	}
	if b.open == nil {
		b.open = map[string]*writer{}
	}
	b.open[agent] = w
	return w, nil
}

// drop closes the agent's run. b.mu is held.
func (b *Book) drop(agent string) error {
	w := b.open[agent]
	delete(b.open, agent)
	if w == nil || w.f == nil {
		return nil
	}
	return w.f.Close()
}

// Close closes all runs. Their shims may live on.
func (b *Book) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	for agent := range b.open {
		errs = append(errs, b.drop(agent))
	}
	return errors.Join(errs...)
}

// fold makes room for another run: the oldest two become one. b.mu is held.
func (b *Book) fold(agent, dir string, all []int) error {
	for len(all) >= MaxRuns {
		old, _, err := readRun(dir, all[0])
		if err != nil {
			b.Log.Warn("record of what an agent used not read; it is removed", "agent", agent, "err", err)
		} else if err := foldInto(dir, old, all[1]); err != nil {
			return err
		}
		failpoint.Hit("policyrecord:folded")
		if err := os.Remove(filepath.Join(dir, fileName(all[0]))); err != nil {
			return err
		}
		all = all[1:]
	}
	return nil
}

// foldInto adds a run to the next one. A crash before the first is removed leaves both, which
// changes nothing.
func foldInto(dir string, old *run, next int) error {
	into, _, err := readRun(dir, next)
	if err != nil {
		into = newRun(next, old.head)
		into.end = endCut
	} else if into.head.Created.Equal(old.head.Created) {
		into.head.Runs = max(into.head.Runs, 1) + max(old.head.Runs, 1)
		end := into.end
		for _, l := range old.all()[1:] {
			into.take(l)
		}
		if into.end = end; old.end != endClean {
			into.end = old.end
		}
	} // else of another agent of that name
	return (&writer{run: into, dir: dir}).rewriteOnce()
}
