package worktree

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"polis/internal/failpoint"
)

// checkoutAgain checks the files of an agent's cone out that its rules withheld before, and returns their names. They are
// those of names without shown, and can be missing, or have what an earlier commit has: git of a sparse checkout drops
// the mark of files that its patterns name, and would see them as reverted. The marks are dropped last, so that the next
// start continues after a crash. What polis cannot check out without removing something else keeps its mark.
func (w *Workspace) checkoutAgain(ctx context.Context, agent string, v View, names map[string]bool, shown []string) []string {
	c := w.Cone(ctx, agent)
	if c == nil {
		return nil
	}
	rest := make(map[string]bool, len(names))
	for name := range names {
		if c.Contains(name) {
			rest[name] = true
		}
	}
	for _, name := range shown {
		delete(rest, name)
	}
	list, err := w.replaceable(agent, v, rest)
	if err == nil && len(list) > 0 {
		do := w.cmd(agent, v, "", "checkout-index", "--force", "--quiet", "--ignore-skip-worktree-bits", "-z", "--stdin")
		do.Stdin, do.Write, do.Timeout = strings.NewReader(strings.Join(list, "\x00")+"\x00"), []string{w.tree(agent)}, checkoutTimeout
		_, err = w.Bare().Do(ctx, do)
	}
	if err != nil {
		w.cfg.Log.Warn("files that rules withheld before not checked out again", "agent", agent, "count", len(rest), "err", err)
		return nil
	}
	failpoint.Hit("sparse:again")
	return list
}

// replaceable returns those of names at which there is a file, or nothing and no file above it.
func (w *Workspace) replaceable(agent string, v View, names map[string]bool) ([]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	root, err := w.lower(agent, v)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var out []string
	for name := range names {
		f, err := openBelow(root, name, unix.O_PATH|unix.O_NOFOLLOW)
		if errors.Is(err, fs.ErrNotExist) {
			out = append(out, name)
			continue
		}
		if err != nil {
			continue
		}
		if fi, err := f.Stat(); err == nil && !fi.IsDir() {
			out = append(out, name)
		}
		f.Close()
	}
	slices.Sort(out)
	return out, nil
}
