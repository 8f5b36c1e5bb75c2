package timeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/daemon/history/cas"
	"polis/daemon/history/snapshot"
	"polis/internal/failpoint"
)

const (
	// aheadWait bounds how long a task waits for the end of a reading ahead.
	aheadWait = 2 * time.Second
	// aheadFiles is how many contents of a reading ahead are stored at least before others have their turn: each
	// time the disk is waited for.
	aheadFiles = 200
)

// ahead is a large tree that is read while its agent works. Others who wait for the store have their turn meanwhile,
// and Collect keeps what it has stored.
type ahead struct {
	w    *writer
	ctx  context.Context
	done chan struct{}

	mu     sync.RWMutex // held for reading while a content is added, for writing between two batches
	next   sync.Mutex   // of put and files
	put    map[cas.Hash]bool
	files  int   // since the last turn
	failed error // of mu
}

// Prepare reads the tree of an agent, if it is a large one and the next checkpoint would have to read it as a
// whole, so that this is not left out or does not wait. It is true if something was read. The agent works meanwhile.
func (t *Timeline) Prepare(ctx context.Context, agent string) (bool, error) {
	if err := t.awaitAhead(ctx, agent, Mark{}); err != nil {
		return false, err
	}
	if s, err := t.open(ctx, true); s == nil {
		return false, err
	}
	small := false
	err := t.Host.Read(ctx, agent, func(ctx context.Context, tree Tree) error {
		if tree.Changes == nil {
			small = true // nothing would tell what changes after it
			return nil
		}
		last, _ := t.last(agent)
		now, err := tree.Changes(ctx, last.Cut)
		if err != nil {
			return err
		}
		if unsure(now, last.series, tree.rules(), now.Paths) == "" {
			small = true
			return nil
		}
		s := &snapshot.Scan{Root: tree.Root, Exclude: []string{".git"}, Skip: tree.leaves, MaxFiles: fewFiles, MaxBytes: fewBytes, Loose: true, Readers: 1}
		_, err = s.Run(ctx)
		small = err == nil
		if errors.Is(err, snapshot.ErrTooLarge) {
			err = nil
		}
		return err
	})
	if err != nil || small {
		return false, err
	}
	return true, t.withRoom(ctx, agent, true, func() error { return t.readAhead(ctx, agent) })
}

// awaitAhead waits until the tree of an agent is not being read ahead: another cut would make that useless. A task waits
// a moment, and what else is Quick not at all.
func (t *Timeline) awaitAhead(ctx context.Context, agent string, mark Mark) error {
	var late <-chan time.Time
	if mark.Quick {
		wait := time.Duration(0)
		if mark.Why == api.SnapshotByTask {
			wait = aheadWait
		}
		timer := time.NewTimer(wait)
		defer timer.Stop()
		late = timer.C
	}
	for {
		t.mu.Lock()
		a := t.ahead[agent]
		t.mu.Unlock()
		if a == nil {
			return nil
		}
		select {
		case <-a.done:
		case <-late:
			return fmt.Errorf("%w: it is being read", ErrLarge)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// readAhead saves a tree that is not still, as what the next checkpoint begins with.
func (t *Timeline) readAhead(ctx context.Context, agent string) error {
	a := &ahead{ctx: ctx, done: make(chan struct{}), put: map[cas.Hash]bool{}}
	t.mu.Lock()
	if other := t.ahead[agent]; other != nil {
		t.mu.Unlock()
		return t.awaitAhead(ctx, agent, Mark{})
	}
	if t.ahead == nil {
		t.ahead = map[string]*ahead{}
	}
	t.ahead[agent] = a
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		delete(t.ahead, agent)
		t.mu.Unlock()
		close(a.done)
	}()
	w, err := t.begin(ctx, agent)
	if err != nil {
		return err
	}
	defer w.close()
	w.loose, w.ahead, a.w = true, a, w
	w.mark(Mark{Why: api.SnapshotByTime})
	err = t.Host.Read(ctx, agent, func(ctx context.Context, tree Tree) error {
		_, err := w.take(ctx, tree)
		return err
	})
	if err != nil {
		return err
	}
	failpoint.Hit("checkpoint:ahead")
	return w.commit(ctx)
}

// Put adds the content of a file.
func (a *ahead) Put(f *os.File) (h cas.Hash, n int64, err error) {
	err = a.add(func() (cas.Hash, error) {
		h, n, err = a.w.batch.Put(f)
		return h, err
	})
	return h, n, err
}

// PutBytes adds p.
func (a *ahead) PutBytes(p []byte) (h cas.Hash, err error) {
	err = a.add(func() (cas.Hash, error) {
		h, err = a.w.batch.PutBytes(p)
		return h, err
	})
	return h, err
}

// add adds one content, and then lets others have the store if they wait.
func (a *ahead) add(put func() (cas.Hash, error)) error {
	a.mu.RLock()
	if a.failed != nil {
		a.mu.RUnlock()
		return a.failed
	}
	h, err := put()
	a.next.Lock()
	if err == nil {
		a.put[h] = true
		a.files++
	}
	turn := a.files >= aheadFiles && a.w.batch.Wanted()
	a.next.Unlock()
	a.mu.RUnlock()
	if err != nil || !turn {
		return err
	}
	return a.yield()
}

// yield makes what was added durable, and waits for the next turn of the store.
func (a *ahead) yield() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed != nil || a.files < aheadFiles {
		return a.failed // another reader was first
	}
	a.files = 0
	a.failed = a.w.again(a.ctx)
	return a.failed
}

// again commits the batch and begins another one.
func (w *writer) again(ctx context.Context) error {
	added := w.batch.Added()
	if err := w.batch.Commit(); err != nil {
		return err
	}
	w.close()
	w.batch = nil
	w.before += added
	b, err := w.t.objects.Begin(ctx, w.t.Limits().StoreBytes)
	w.batch = b
	return err
}

// pinned returns what readings ahead have stored and no record has yet. t.mu is held.
func (t *Timeline) pinned() map[cas.Hash]bool {
	out := map[cas.Hash]bool{}
	for _, a := range t.ahead {
		a.next.Lock()
		for h := range a.put {
			out[h] = true
		}
		a.next.Unlock()
	}
	return out
}

// supersede removes the records of earlier readings ahead of the same agent: a newer record continues from them.
// t.mu is held.
func (t *Timeline) supersede(by record) {
	if by.Cut == "" {
		return
	}
	for id, r := range t.records {
		if r.Loose && r.Agent == by.Agent && id != by.ID && r.Time.Before(by.Time) {
			if err := t.forgetLocked(id); err != nil {
				t.Log.Warn("record of a tree that was read ahead not removed", "agent", r.Agent, "path", t.recordFile(id), "err", err)
			}
		}
	}
}

// readers is how many files of a tree are read at a time while its agent works.
func readers() int { return max(runtime.GOMAXPROCS(0)/2, 1) }
