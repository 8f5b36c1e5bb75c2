package fusefs

import (
	"log/slog"
	"path"
	"sync"
	"time"
)

const (
	// maxEchoed bounds the changes that are shown one by one. Of the others the directories are notified
	// (IN_ATTRIB), at most maxEchoedDirs of them.
	maxEchoed, maxEchoedDirs = 10000, 1000
	// echoTime is how long a change is worth showing, unless a test has another time.
	echoTime = time.Minute
	// echoWait is how long ShowChanges waits. A directory in which a change waits for a lease or a person is locked
	// until then; the rest is shown in the background.
	echoWait = time.Second
)

// echoes are the changes that wait for being shown.
type echoes struct {
	mu   sync.Mutex
	list []Change
	dirs map[string]bool // where more has changed
	idle chan struct{}   // closed when all is shown; nil if nothing is in progress

	stuck map[*echoWorker]string // where threads wait
	// owed is set if changes were dropped of which nothing was shown: programs that watch the root directory are notified.
	owed bool
	lost int64 // changes dropped so, since the view was made
}

// waitsFor reports whether a thread waits for a directory. mu is held.
func (q *echoes) waitsFor(dir string) bool {
	for _, at := range q.stuck {
		if at == dir {
			return true
		}
	}
	return false
}

// nudges reports whether the root directory is to be notified, and can be. mu is held.
func (q *echoes) nudges() bool { return q.owed && !q.waitsFor("/") }

// lose counts changes that are not shown. echoes.mu is held.
func (fs *FS) lose(n int, why string) {
	if n == 0 {
		return
	}
	fs.echoes.owed = true
	fs.echoes.lost += int64(n)
	fs.log.Warn("programs that watch files are not notified of changes, except in the root directory", slog.String("op", "show-changes"),
		slog.Int("changes", n), slog.Int64("all", fs.echoes.lost), slog.String("why", why))
}

// LostChanges is the number of changes that no watcher was notified of by name, since the view was made.
func (fs *FS) LostChanges() int64 {
	fs.echoes.mu.Lock()
	defer fs.echoes.mu.Unlock()
	return fs.echoes.lost
}

// addEchoes adds changes; start says that nothing was in progress.
func (fs *FS) addEchoes(changes []Change) (idle chan struct{}, start bool) {
	q := &fs.echoes
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stuck == nil {
		q.stuck = map[*echoWorker]string{}
	}
	n, lost := min(len(changes), max(maxEchoed-len(q.list), 0)), 0
	q.list = append(q.list, changes[:n]...)
	for _, c := range changes[n:] {
		if q.dirs == nil {
			q.dirs = map[string]bool{}
		}
		if dir := path.Dir(c.Path); len(q.dirs) < maxEchoedDirs || q.dirs[dir] {
			q.dirs[dir] = true
		} else {
			lost++
		}
	}
	fs.lose(lost, "there are too many")
	if start = q.idle == nil; start {
		q.idle = make(chan struct{})
	}
	return q.idle, start
}

// take returns what waits; when nothing does, what was in progress has ended.
func (q *echoes) take() ([]Change, map[string]bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	list, dirs := q.list, q.dirs
	q.list, q.dirs = nil, nil
	if len(list) == 0 && len(dirs) == 0 {
		close(q.idle)
		q.idle = nil
	}
	return list, dirs
}

// ShowChanges has programs that watch the tree see changes that were made behind the view, as if a program had made
// them. The kernel must have been made to forget what it cached before (InvalidateAll). It returns when they
// were shown, or after a second. It must not be called from within a method of the guard.
func (fs *FS) ShowChanges(changes []Change) {
	if len(changes) == 0 {
		return
	}
	fs.mu.Lock()
	if fs.server == nil {
		fs.mu.Unlock()
		return
	}
	idle, start := fs.addEchoes(changes)
	if start {
		fs.bg.Go(fs.showAll)
	}
	fs.mu.Unlock()
	t := time.NewTimer(echoWait)
	defer t.Stop()
	select {
	case <-idle:
	case <-t.C:
		fs.log.Debug("changes are shown in the background", slog.String("op", "show-changes"))
	}
}

// ShowsChanges reports whether earlier changes are still being shown.
func (fs *FS) ShowsChanges() bool {
	fs.echoes.mu.Lock()
	defer fs.echoes.mu.Unlock()
	return fs.echoes.idle != nil
}

// showAll shows what waits, until nothing does.
func (fs *FS) showAll() {
	for {
		list, dirs := fs.echoes.take()
		if len(list) == 0 && len(dirs) == 0 {
			return
		}
		fs.show(list, dirs)
	}
}
