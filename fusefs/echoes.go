package fusefs

import (
	"context"
	"log/slog"
	"path"
	"sync"
	"time"

	"polis/fusefs/apart"
)

const (
	// maxEchoed bounds the changes that are shown one by one. Of the others the directories are notified
	// (IN_ATTRIB), at most maxEchoedDirs of them.
	maxEchoed, maxEchoedDirs = 10000, 1000
	// echoTime is how long a change is worth showing.
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
}

// add adds changes; start says that nothing was in progress.
func (q *echoes) add(changes []Change) (idle chan struct{}, start bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(changes), maxEchoed-len(q.list))
	q.list = append(q.list, changes[:n]...)
	for _, c := range changes[n:] {
		if q.dirs == nil {
			q.dirs = map[string]bool{}
		}
		if len(q.dirs) == maxEchoedDirs {
			break
		}
		q.dirs[path.Dir(c.Path)] = true
	}
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
	idle, start := fs.echoes.add(changes)
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

// showAll shows what waits, until nothing does. One thread at a time is recognised.
func (fs *FS) showAll() {
	for {
		list, dirs := fs.echoes.take()
		if len(list) == 0 && len(dirs) == 0 {
			return
		}
		err := apart.Do(context.Background(), func() error { // it ends with the connection at the latest
			fs.show(list, dirs)
			return nil
		})
		if err != nil {
			fs.log.Warn("watchers are not notified", slog.String("op", "show-changes"), slog.Any("err", err))
		}
	}
}
