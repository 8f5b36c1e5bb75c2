package worktree

import (
	"context"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// settling bounds the indexes that polisd reads at a time to settle them, those of all workspaces together: it holds
// several times maxIndex for one.
var settling = semaphore.NewWeighted(2)

// maxRacy bounds the files of an agent that racyFiles knows.
const maxRacy = 1000

// racyFile is an entry of an index. modified is the time of its file, in seconds.
type racyFile struct {
	name     string
	modified int64
}

// racyFiles knows, for the indexes that were read last, the files that are not older than they are, so that an index is
// read once. It knows no index with more than maxRacy such files.
type racyFiles struct {
	mu sync.Mutex
	of map[string]racyIndex // by agent
}

type racyIndex struct {
	id    indexID
	files []racyFile
}

// get returns the files of an agent's index if it is the one with this id.
func (r *racyFiles) get(agent string, id indexID) ([]racyFile, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x, ok := r.of[agent]
	return x.files, ok && x.id == id
}

func (r *racyFiles) set(agent string, id indexID, files []racyFile) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = map[string]racyIndex{}
	}
	r.of[agent] = racyIndex{id, files}
}

// renew notes that an index with the same entries, as if it were written at a time, replaces another one.
func (r *racyFiles) renew(agent string, was, id indexID, at time.Time) {
	files, ok := r.get(agent, was)
	if !ok {
		return
	}
	var left []racyFile
	for _, f := range files {
		if f.modified >= at.Unix() {
			left = append(left, f)
		}
	}
	r.set(agent, id, left)
}

func (r *racyFiles) forget(agent string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, agent)
}

// asOld returns the newest time, in seconds, of an agent's files for which asked returns true and that are not older
// than its index; 0 if there is none. Files with a time to come stay so.
func (w *Workspace) asOld(ctx context.Context, agent string, asked func(path string) bool) (int64, error) {
	f, fi, err := w.Index(agent)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var newest int64
	soon := time.Now().Add(maxSettle).Unix() - 1
	note := func(name string, modified int64) {
		if modified <= soon && modified > newest && asked(name) {
			newest = modified
		}
	}
	id := idOfIndex(fi)
	if files, known := w.racy.get(agent, id); known {
		for _, r := range files {
			note(r.name, r.modified)
		}
		return newest, nil
	}
	if fi.Size() > maxIndex {
		return 0, nil
	}
	if settling.Acquire(ctx, 1) != nil {
		return 0, context.Cause(ctx)
	}
	defer settling.Release(1)
	text, err := io.ReadAll(io.LimitReader(f, maxIndex))
	if err != nil {
		return 0, err
	}
	x, err := parseIndex(text)
	if err != nil {
		w.racy.set(agent, id, nil)
		return 0, nil //nolint:nilerr // git asks about files that it need not read
	}
	var files []racyFile
	for i := range x.Entries {
		name, modified := x.Entries[i].Name, x.Modified(i)
		if modified < fi.ModTime().Unix() {
			continue
		}
		note(name, modified)
		if len(files) <= maxRacy {
			files = append(files, racyFile{name, modified})
		}
	}
	if len(files) <= maxRacy {
		w.racy.set(agent, id, files)
	}
	return newest, nil
}
