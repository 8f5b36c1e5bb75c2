package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// SkipMissing marks the files of an agent's index as not checked out for which of is true, that an earlier index marks so,
// and that are missing. old writes that one. A file in conflict is not marked: it has no one entry. An index that polis does not read stays as it is. The agent must be still.
func (w *Workspace) SkipMissing(ctx context.Context, agent string, of func(string) bool, old func(io.Writer) error) error {
	names, err := w.missingMarked(agent, of, old)
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

func (w *Workspace) missingMarked(agent string, of func(string) bool, old func(io.Writer) error) ([]string, error) {
	var text bytes.Buffer
	if err := old(&text); err != nil {
		return nil, err
	}
	before, err := parseIndex(text.Bytes())
	if err != nil {
		return nil, nil //nolint:nilerr // an agent writes its index
	}
	was := map[string]bool{}
	for _, i := range before.Marked() {
		if before.Skipped(i) {
			was[before.Entries[i].Name] = true
		}
	}
	admin, err := w.openAdmin(agent)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	now, _, err := indexBytes(admin)
	if err != nil {
		return nil, nil //nolint:nilerr // as above
	}
	x, err := parseIndex(now)
	if err != nil {
		return nil, nil //nolint:nilerr // as above
	}
	for _, name := range x.Conflicts() {
		delete(was, name)
	}
	root, err := w.lower(agent, View{})
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var names []string
	for i := range x.Entries {
		name := x.Entries[i].Name
		if !was[name] || !of(name) || x.Skipped(i) {
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
