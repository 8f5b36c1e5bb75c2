package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/git/gitindex"
)

// SkipMissing marks the files of an agent's index as not checked out for which of is true, that are missing, and that an
// earlier index marks so, which old writes. If that is nil, or writes an index that polis does not read, these are the files
// outside of the cone that the worktree was made with, or of the one that it has now: an agent widens its checkout, and it is not
// known when. A file in conflict is not marked: it has no one entry. An index that polis does not read stays as it is. The agent
// must be still.
func (w *Workspace) SkipMissing(ctx context.Context, agent string, of func(string) bool, old func(io.Writer) error) error {
	if w.made(agent) == nil {
		return nil
	}
	names, err := w.missingMarked(ctx, agent, of, old)
	if err != nil || len(names) == 0 {
		return err
	}
	c := w.cmd(agent, View{}, "", "update-index", "-z", "--skip-worktree", "--stdin")
	c.Stdin = strings.NewReader(strings.Join(names, "\x00") + "\x00")
	if _, err := w.Bare().Do(ctx, c); err != nil {
		return fmt.Errorf("mark what the sparse checkout of %s has not: %w", agent, err)
	}
	return nil
}

// skippedBefore returns which files an earlier index marks as not checked out.
func (w *Workspace) skippedBefore(ctx context.Context, agent string, old func(io.Writer) error) (func(name string) bool, error) {
	if old != nil {
		var text bytes.Buffer
		if err := old(&text); err != nil {
			return nil, err
		}
		if x, err := parseIndex(text.Bytes()); err == nil {
			was := map[string]bool{}
			for _, i := range x.Marked() {
				if x.Skipped(i) {
					was[x.Entries[i].Name] = true
				}
			}
			return func(name string) bool { return was[name] }, nil
		}
	}
	made, now := w.made(agent), w.Cone(ctx, agent)
	return func(name string) bool { return !made.Contains(name) || now != nil && !now.Contains(name) }, nil
}

// presentIndex reads an agent's index; nil if polis does not read it. One that has a part in another file is made whole by
// git.
func (w *Workspace) presentIndex(ctx context.Context, agent string) (*gitindex.Index, error) {
	read := func() (*gitindex.Index, error) {
		admin, err := w.openAdmin(agent)
		if err != nil {
			return nil, err
		}
		defer admin.Close()
		text, _, err := indexBytes(admin)
		if err != nil {
			return nil, nil //nolint:nilerr,nilnil // an agent writes its index
		}
		x, err := parseIndex(text)
		if err != nil {
			return nil, nil //nolint:nilerr,nilnil // as above
		}
		return x, nil
	}
	x, err := read()
	if x != nil || err != nil {
		return x, err
	}
	if _, err := w.Bare().Do(ctx, w.cmd(agent, View{}, "", "update-index", "-q", "--force-write-index", "-z", "--stdin")); err != nil { // with --stdin git enters the worktree, and finds its files
		return nil, context.Cause(ctx) //nolint:nilnil // git does not read it either
	}
	return read()
}

func (w *Workspace) missingMarked(ctx context.Context, agent string, of func(string) bool, old func(io.Writer) error) ([]string, error) {
	was, err := w.skippedBefore(ctx, agent, old)
	if err != nil {
		return nil, err
	}
	x, err := w.presentIndex(ctx, agent)
	if err != nil || x == nil {
		return nil, err
	}
	conflicts := map[string]bool{}
	for _, name := range x.Conflicts() {
		conflicts[name] = true
	}
	root, err := w.lower(agent, View{})
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var names []string
	for i := range x.Entries {
		name := x.Entries[i].Name
		if !was(name) || conflicts[name] || !of(name) || x.Skipped(i) {
			continue
		}
		f, err := openBelow(root, name, unix.O_PATH|unix.O_NOFOLLOW)
		switch {
		case err == nil:
			f.Close()
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
			names = append(names, name)
		}
	}
	return names, nil
}

// completeIndex reports whether git reads a file in an agent's part of the git directory as an index. One of a split index
// needs another file, which git removes after some time.
func (w *Workspace) completeIndex(ctx context.Context, agent, name string) bool {
	c := w.cmd(agent, View{}, filepath.Join(w.admin(agent), name), "rev-parse", "--shared-index-path")
	_, err := w.Bare().Do(ctx, c)
	return err == nil
}
