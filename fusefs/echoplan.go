package fusefs

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"polis/fusefs/apart"
	"polis/fusefs/backing"
)

const (
	// stuckAfter is how long a thread waits for one directory before another thread shows the changes of the others.
	stuckAfter = time.Second
	// maxStuck bounds the threads that wait for directories.
	maxStuck = 8
)

// step is one thing to show. It may wait for its directory.
type step struct {
	dir   string
	since time.Time
	do    func(*echoer)
}

// showing shows the changes of a list. One thread works. A thread that waits for a directory is left to wait, and another
// one shows what is in other directories.
type showing struct {
	fs   *FS
	wake chan struct{}

	// Guarded by echoes.mu.
	gone   map[string]formerly // replaced as a whole
	steps  []step
	worker *echoWorker // nil if none works
}

// echoWorker is a thread that shows changes. Guarded by echoes.mu.
type echoWorker struct {
	dir   string    // of what it does
	of    time.Time // since when that is to be shown
	since time.Time // since when it does that
	stuck bool      // it waits, or did, and another has taken its place
}

// plan adds the steps of a list: what goes is removed before its directory, and what is made is made after.
func (s *showing) plan(list []Change, dirs map[string]bool) {
	above := s.fs.cfg.Above != ""
	now := time.Now()
	add := func(p string, do func(*echoer)) {
		s.steps = append(s.steps, step{dir: path.Dir(path.Clean("/" + p)), since: now, do: do})
	}
	if above {
		for _, c := range list {
			if c.Was == unix.S_IFREG && c.Is == unix.S_IFREG && c.Content {
				add(c.Path, func(e *echoer) { e.failed(c.Path, e.withParent(c.Path, e.modify)) })
			}
		}
		return
	}
	slices.SortStableFunc(list, func(a, b Change) int { return cmp.Compare(a.Path, b.Path) })
	s.gone = maps.Clone(s.gone)
	for _, c := range list {
		if c.Was != 0 && (c.Is == 0 || c.Replaced) {
			s.gone[c.Path] = formerly{kind: c.Was, replaced: c.Replaced}
		}
	}
	for _, c := range slices.Backward(list) { // what is in a directory before the directory
		if c.Was != 0 && (c.Is == 0 || c.Replaced && (c.Was == unix.S_IFDIR || c.Is == unix.S_IFDIR)) {
			add(c.Path, func(e *echoer) { e.remove(c) })
		}
	}
	for _, c := range list {
		if c.Is != 0 {
			add(c.Path, func(e *echoer) { e.showThere(c) })
		}
	}
	for dir := range dirs { // x: what may be in use is the directory itself
		add(dir+"/x", func(e *echoer) { nudgeAt(e.root, dir, e.fs.log) })
	}
}

// tooOld reports whether a change is not worth showing any more.
func (fs *FS) tooOld(since, now time.Time) bool {
	return now.Sub(since) >= time.Duration(fs.echoTime.Load())
}

// run returns when all is shown, or what remains is not worth it any more.
func (s *showing) run() {
	t := time.NewTicker(stuckAfter / 10)
	defer t.Stop()
	for {
		w, more := s.advance(time.Now())
		if w != nil {
			s.fs.bg.Go(func() { s.work(w) })
		}
		if !more {
			return
		}
		select {
		case <-s.wake:
		case <-t.C:
		}
	}
}

// advance notices a thread that waits and returns the one to begin, if any. more is false at the end.
func (s *showing) advance(now time.Time) (begin *echoWorker, more bool) {
	q := &s.fs.echoes
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.fs.unmounting.Load() {
		s.steps = nil
		return nil, false
	}
	before := len(s.steps)
	s.steps = slices.DeleteFunc(s.steps, func(st step) bool { return s.fs.tooOld(st.since, now) })
	s.fs.lose(before-len(s.steps), "their directories were in use for too long")
	if w := s.worker; w != nil {
		if now.Sub(w.since) < stuckAfter {
			return nil, true
		}
		w.stuck, s.worker = true, nil
		q.stuck[w] = w.dir
		s.fs.log.Debug("changes in a directory wait for a program", slog.String("op", "show-changes"), slog.String("path", w.dir))
	}
	if len(q.list) > 0 && len(s.steps)+len(q.list) <= maxEchoed && s.runnable() < 0 {
		s.plan(q.list, q.dirs)
		q.list, q.dirs = nil, nil
	}
	if len(q.stuck) < maxStuck && (s.runnable() >= 0 || q.nudges()) {
		s.worker = &echoWorker{since: now}
		return s.worker, true
	}
	for w := range q.stuck {
		more = more || !s.fs.tooOld(w.of, now)
	}
	return nil, more || len(s.steps) > 0
}

// runnable is the first step whose directory no thread waits for, or -1.
func (s *showing) runnable() int {
	return slices.IndexFunc(s.steps, func(st step) bool { return !s.fs.echoes.waitsFor(st.dir) })
}

// work is the goroutine of a worker.
func (s *showing) work(w *echoWorker) {
	err := apart.Do(context.Background(), func() error { // it ends with the connection at the latest
		s.workApart(w)
		return nil
	})
	q := &s.fs.echoes
	q.mu.Lock()
	if err != nil {
		s.fs.log.Warn("watchers are not notified", slog.String("op", "show-changes"), slog.Any("err", err))
		s.steps, q.owed = nil, false
	}
	delete(q.stuck, w)
	if s.worker == w {
		s.worker = nil
	}
	q.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// workApart does steps on the thread that the view recognises.
func (s *showing) workApart(w *echoWorker) {
	e := echoer{fs: s.fs, above: s.fs.cfg.Above != ""}
	if e.root = s.fs.openMount(e.above); e.root < 0 { // unmounted: nobody watches
		s.fs.echoes.mu.Lock()
		s.steps, s.fs.echoes.owed = nil, false
		s.fs.echoes.mu.Unlock()
		return
	}
	defer backing.Close(e.root)
	s.fs.echoes.mu.Lock()
	e.is = &echoing{tid: uint32(unix.Gettid()), gone: s.gone}
	s.fs.echoes.mu.Unlock()
	defer s.fs.recognise(e.is)()
	for do := s.next(w); do != nil; do = s.next(w) {
		do(&e)
	}
}

// next returns what a worker does now; nil ends it.
func (s *showing) next(w *echoWorker) func(*echoer) {
	q := &s.fs.echoes
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.stuck, w)
	if w.since = time.Now(); q.nudges() {
		if q.owed, w.dir = false, "/"; w.stuck {
			q.stuck[w] = "/"
		}
		return func(e *echoer) {
			if !e.above {
				nudgeAt(e.root, "", e.fs.log)
			}
		}
	}
	i := -1
	if !w.stuck {
		i = s.runnable()
	}
	if i < 0 {
		return nil
	}
	st := s.steps[i]
	s.steps = slices.Delete(s.steps, i, i+1)
	w.dir, w.of = st.dir, st.since
	return st.do
}
