package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/fusefs/fdtree"
)

// DiffOptions select what Diff shows.
type DiffOptions struct {
	View
	// Branch is what is compared if the agent has no worktree, or with Committed.
	Branch string
	// Stat and NameOnly show less than the whole patch.
	Stat, NameOnly bool
	// Committed leaves out what no commit holds.
	Committed bool
}

// Diff writes what an agent changed since its branch left the target: its commits, and
// uncommitted changes including untracked files. It reads below the view and changes nothing, not
// even the index.
func (w *Workspace) Diff(ctx context.Context, agent string, opt DiffOptions, to io.Writer) (err error) {
	if err := w.usable(agent); err != nil {
		return err
	}
	fail := func(err error) error {
		return api.Errorf(api.CodeWorktreeFailed, "compare the work of %s: %w", agent, err)
	}
	target, err := w.Target(ctx)
	if err != nil {
		return err
	}
	bare := w.of(agent)
	head, err := w.head(ctx, agent)
	if err == nil && opt.Committed && opt.Branch != "" {
		head, err = bare.Commit(ctx, git.Branch(opt.Branch))
	}
	if err != nil {
		return fail(err)
	}
	if head == "" {
		return fail(errors.New("it has no commit"))
	}
	base, err := bare.Line(ctx, "merge-base", "--end-of-options", git.Branch(target), head)
	if err != nil {
		return fail(fmt.Errorf("find where it left %s: %w", target, err))
	}
	// Only the commit of a submodule is compared: for its content git would start another git in
	// that repository.
	args := []string{"diff", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty", "--submodule=short"}
	if opt.Stat {
		args = append(args, "--stat")
	}
	if opt.NameOnly {
		args = append(args, "--name-only")
	}
	if opt.Committed {
		_, err = bare.Do(ctx, git.Cmd{Args: append(args, "--end-of-options", base, head), Stdout: to})
	} else {
		if err = w.diffFiles(ctx, agent, opt, args, base, head, to); err == nil {
			err = w.diffNested(ctx, agent, opt, to)
		}
	}
	if err != nil && !opt.Committed {
		// The cause may be in the worktree, such as a damaged repository.
		return api.Errorf(api.CodeWorktreeFailed, "compare the work of %s: %w", agent, err).
			WithHint("polisctl agents diff %s --committed compares its commits, whatever lies in its worktree", agent)
	}
	if err != nil {
		return fail(err)
	}
	return nil
}

// diffChanges lists what can differ between a commit and the files of a worktree; nil if that is
// not known.
func (w *Workspace) diffChanges(ctx context.Context, agent, base string, v View) (*changeSet, error) {
	set, err := w.changes(ctx, agent, v)
	if set == nil || err != nil {
		return nil, err
	}
	more, err := w.of(agent).Changed(ctx, base, set.base)
	if err == nil {
		err = set.add(more)
	}
	if err != nil && ctx.Err() == nil {
		w.cfg.Log.Info("git reads a whole worktree", "agent", agent, "op", "diff", "err", err)
		return nil, nil
	}
	return set, err
}

// diffFiles compares the files with base, by a copy of the index that has the untracked ones.
func (w *Workspace) diffFiles(ctx context.Context, agent string, opt DiffOptions, args []string, base, head string, to io.Writer) (err error) {
	tmp, err := (&upper{spec: Spec{UID: w.cfg.UID, GID: w.cfg.GID}, w: w}).scratch("diff-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fdtree.Cleanup(tmp)) }()
	root, err := w.lower(agent, opt.View)
	if err != nil {
		return err
	}
	defer root.Close()
	s := &saver{w: w, agent: agent, opt: SaveOptions{View: opt.View}, index: filepath.Join(tmp, "index")}
	if s.set, err = w.diffChanges(ctx, agent, base, opt.View); err != nil {
		return err
	}
	s.withoutConflicts()
	if s.set != nil && len(s.set.paths) == 0 {
		return nil
	}
	if err := s.blocking(ctx, root); err != nil {
		return err
	}
	if _, err := s.copyIndex(ctx, head); err != nil {
		return err
	}
	passed, err := s.passOver(ctx, root)
	if err != nil {
		return fmt.Errorf("find what git cannot compare: %w", err)
	}
	untracked, err := s.intendToAdd(ctx, root)
	if err != nil {
		return fmt.Errorf("find untracked files: %w", err)
	}
	c := w.cmd(agent, opt.View, s.index, s.within(append(args, "--end-of-options", base))...)
	c.Stdout = to
	if _, err = w.Bare().Do(ctx, c); err != nil {
		return err
	}
	return opt.name(to, append(passed, untracked...))
}

// diffNested names the work in repositories inside the worktree.
func (w *Workspace) diffNested(ctx context.Context, agent string, opt DiffOptions, to io.Writer) error {
	work, err := w.nestedWork(ctx, agent, opt.View)
	if err != nil {
		return err
	}
	named := make([]passedOver, 0, len(work))
	for _, n := range work {
		named = append(named, passedOver{n.Path, "has work in a repository of its own: " + n.text()})
	}
	return opt.name(to, named)
}

// name writes the names of files that the diff does not compare.
func (opt DiffOptions) name(to io.Writer, files []passedOver) error {
	for _, p := range files {
		line := "# polis: " + strconv.Quote(p.name) + " " + p.why + "\n"
		if opt.NameOnly {
			line = p.name + "\n"
		}
		if _, err := io.WriteString(to, line); err != nil {
			return err
		}
	}
	return nil
}

// passedOver is a file that a diff only names.
type passedOver struct{ name, why string }

const (
	whyLarge   = "is too large to compare, or mostly a hole"
	whySpecial = "is a pipe, a socket or a device now, which git cannot compare"
	whyDenied  = "is in a directory that its owner cannot search"
)

// passOver marks tracked files that git cannot compare as unchanged in the copy of the index, and
// returns them: of a file that is too large now git would read all of a hole to show it, and at a pipe
// it would fail and show nothing of the rest.
func (s *saver) passOver(ctx context.Context, root *os.File) ([]passedOver, error) {
	out, err := s.git(ctx, nil, "diff-files", "-z", "--name-only", "--no-renames", "--ignore-submodules=all")
	if err != nil {
		return nil, err
	}
	var passed []passedOver
	var in bytes.Buffer
	for _, name := range git.SplitNUL(out) {
		if why := incomparable(root, name); why != "" {
			passed = append(passed, passedOver{name, why})
			in.WriteString(name + "\x00")
		}
	}
	if len(passed) == 0 {
		return nil, nil
	}
	_, err = s.git(ctx, &in, "update-index", "--assume-unchanged", "-z", "--stdin")
	return passed, err
}

// incomparable returns why a file of the worktree is kept from git; "" if it is not.
func incomparable(root *os.File, name string) string {
	f, err := openBelow(root, name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return ""
	}
	defer f.Close()
	fi, err := f.Stat()
	switch {
	case err != nil:
		return ""
	case fi.Mode()&(fs.ModeNamedPipe|fs.ModeSocket|fs.ModeDevice|fs.ModeIrregular) != 0:
		return whySpecial
	case fi.Mode().IsRegular() && unsavable(fi):
		return whyLarge
	}
	return ""
}

// intendToAdd adds the untracked files to the copy of the index, and returns those that git cannot add. They
// are named one by one: for a whole directory git enters the submodules there.
func (s *saver) intendToAdd(ctx context.Context, root *os.File) ([]passedOver, error) {
	out, err := s.git(ctx, nil, s.within([]string{"ls-files", "-z", "--others", "--exclude-standard"})...)
	if err != nil {
		return nil, err
	}
	var names bytes.Buffer
	var passed []passedOver
	for _, name := range git.SplitNUL(out) {
		switch why := incomparable(root, name); {
		case why != "":
			passed = append(passed, passedOver{name, why})
		case strings.HasSuffix(name, "/"):
			passed = append(passed, passedOver{strings.TrimSuffix(name, "/"), "is a repository of its own, which git does not compare"})
		case !s.searchable(root, filepath.Dir(name)):
			passed = append(passed, passedOver{name, whyDenied})
		default:
			names.WriteString(name + "\x00")
		}
	}
	if names.Len() == 0 {
		return passed, nil
	}
	_, err = s.git(ctx, &names, "add", "--intent-to-add", "--pathspec-from-file=-", "--pathspec-file-nul")
	return passed, err
}

// searchable reports whether git, which runs as the owner of the workspace, can look up names in a
// directory: one that can only be read has names, but git add fails at the first of them.
func (s *saver) searchable(root *os.File, dir string) bool {
	for ; dir != "."; dir = filepath.Dir(dir) {
		f, err := openBelow(root, dir, unix.O_PATH|unix.O_NOFOLLOW)
		if err != nil {
			return false
		}
		var st unix.Stat_t
		err = unix.Fstat(int(f.Fd()), &st)
		f.Close()
		may := st.Mode & 0o001
		switch {
		case err != nil:
			return false
		case s.w.cfg.UID == 0:
			continue
		case int64(st.Uid) == int64(s.w.cfg.UID):
			may = st.Mode & 0o100
		case int64(st.Gid) == int64(s.w.cfg.GID):
			may = st.Mode & 0o010
		}
		if may == 0 {
			return false
		}
	}
	return true
}
