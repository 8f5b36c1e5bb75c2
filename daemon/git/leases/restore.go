package leases

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"polis/lockd"
)

const (
	// oneByOne is how many paths get a lease each. Of more, their top directories get one.
	oneByOne = 4000
	// perRequest is how many keys one request has; the table takes 1024.
	perRequest = 1000
)

// Restore takes the write leases of an agent's files that are restored, for the agent, and waits for
// no other holder: what another agent has locked is not restored. They end after hold, as those of a
// write do. release returns them earlier; leases that the agent had before stay. Paths are relative
// to the repository.
func Restore(ctx context.Context, t *lockd.Server, workspace, agent string, paths []string, hold time.Duration, log *slog.Logger) (release func(), err error) {
	reason := fmt.Sprintf("its files are restored from a snapshot (%d)", time.Now().UnixNano())
	var taken []string
	release = func() {
		for _, key := range taken {
			if _, err := t.Unlock(workspace, agent, key); err != nil && !errors.Is(err, lockd.ErrNotHeld) {
				log.Warn("lease of a restore not released", "agent", agent, "path", key, "err", err)
			}
		}
	}
	files, trees := restoreKeys(paths)
	for _, r := range requests(files, trees) {
		r.Workspace, r.Holder, r.Mode, r.Reason, r.For, r.Soft, r.Op = workspace, agent, lockd.Write, reason, hold, true, "restore"
		got, err := t.Lock(ctx, r)
		for _, l := range got {
			if l.Reason == reason {
				taken = append(taken, l.Path)
			}
		}
		if err != nil {
			release()
			return nil, Error(err)
		}
	}
	return release, nil
}

// restoreKeys returns the keys of the leases: one for each path, or, if they are many, for what lies
// at the top. A name that is not UTF-8 is covered by the directory above it.
func restoreKeys(paths []string) (files, trees []string) {
	in := map[string]bool{}
	for _, p := range paths {
		valid := utf8.ValidString(p)
		switch {
		case valid && len(paths) <= oneByOne:
			files = append(files, lockd.FileKey(p))
		case valid:
			top, _, _ := strings.Cut(p, "/")
			in[top] = true
		default:
			for !utf8.ValidString(p) {
				p = p[:max(strings.LastIndexByte(p, '/'), 0)]
			}
			in[p] = true
		}
	}
	if in[""] { // the whole repository
		return nil, []string{lockd.FileKey("")}
	}
	for _, dir := range slices.Sorted(maps.Keys(in)) {
		trees = append(trees, lockd.FileKey(dir))
	}
	return files, trees
}

// requests splits keys into requests. The trees come first: they conflict most.
func requests(files, trees []string) (out []lockd.LockRequest) {
	for keys := range slices.Chunk(trees, perRequest) {
		out = append(out, lockd.LockRequest{Trees: keys})
	}
	for keys := range slices.Chunk(files, perRequest) {
		out = append(out, lockd.LockRequest{Paths: keys})
	}
	return out
}
