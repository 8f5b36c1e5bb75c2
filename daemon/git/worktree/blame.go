package worktree

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/git"
)

const (
	// maxBlame and maxBlameLines bound a file that is blamed, in bytes and lines.
	maxBlame      = 4 << 20
	maxBlameLines = 50_000
	blameTime     = time.Minute
)

// Blamed is what git knows about the lines of a file.
type Blamed struct {
	Head string
	// Porcelain is the output of git blame --porcelain. If no commit has the file it is empty, and
	// Content is the file.
	Porcelain, Content []byte
}

// Blame returns of which commits the lines of a file are: of an agent's file as it is now, or, with ""
// for the agent, of that of the target branch.
func (w *Workspace) Blame(ctx context.Context, agent, path string) (b Blamed, err error) {
	repo := w.Bare()
	if agent == "" {
		target, err := w.Target(ctx)
		if err != nil {
			return b, err
		}
		if b.Head, err = repo.Commit(ctx, git.Branch(target)); err != nil {
			return b, err
		}
	} else {
		if b.Head, err = w.Head(ctx, agent); err != nil {
			return b, err
		}
		repo = w.of(agent)
		if b.Content, err = w.content(agent, path); err != nil {
			return b, err
		}
	}
	fail := func(err error) (Blamed, error) {
		return Blamed{}, api.Errorf(api.CodeWorktreeFailed, "blame %q: %w", api.Shorten(path, 200), err)
	}
	size := int64(-1)
	if b.Head != "" {
		if size, err = committed(ctx, repo, b.Head, path); err != nil {
			return fail(err)
		}
	}
	switch {
	case size < 0 && agent == "":
		return b, notAFile(path)
	case size < 0:
		return b, nil
	case size > maxBlame && agent == "":
		return b, tooLarge(path)
	}
	args := []string{"blame", "--porcelain", "--ignore-revs-file="}
	c := git.Cmd{Args: append(args, b.Head, "--", path)}
	if agent != "" {
		c = w.cmd(agent, View{}, "", append(args, "--contents", "-", "--", path)...)
		c.Stdin = bytes.NewReader(b.Content)
	}
	c.Timeout = blameTime
	if b.Porcelain, err = repo.Do(ctx, c); err != nil {
		return fail(err)
	}
	b.Content = nil
	return b, nil
}

func notAFile(path string) error {
	return api.Errorf(api.CodeNotFound, "%q is not a file there, or is below a link; --agent NAME reads the file of an agent", api.Shorten(path, 200))
}

func tooLarge(path string) error {
	return api.Errorf(api.CodeTooLarge, "%q has more than %d MiB or %d lines, and is not compared with the history", api.Shorten(path, 200), maxBlame>>20, maxBlameLines)
}

// content reads a file of an agent below its view.
func (w *Workspace) content(agent, path string) ([]byte, error) {
	root, err := w.Lower(agent)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := openBelow(root, path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW)
	if gone(err) == nil && err != nil || errors.Is(err, unix.ENXIO) {
		return nil, notAFile(path)
	} else if err != nil {
		return nil, api.Errorf(api.CodeWorktreeFailed, "read %q of agent %s: %w", api.Shorten(path, 200), agent, err)
	}
	defer f.Close()
	var fi fs.FileInfo
	if fi, err = f.Stat(); err == nil && !fi.Mode().IsRegular() {
		return nil, notAFile(path)
	}
	var b []byte
	if err == nil {
		b, err = io.ReadAll(io.LimitReader(f, maxBlame+1))
	}
	if err != nil {
		return nil, api.Errorf(api.CodeWorktreeFailed, "read %q of agent %s: %w", api.Shorten(path, 200), agent, err)
	}
	if len(b) > maxBlame || bytes.Count(b, []byte("\n")) > maxBlameLines {
		return nil, tooLarge(path)
	}
	return b, nil
}

// committed returns the size of a file of a commit; -1 if it has none.
func committed(ctx context.Context, repo git.Repo, commit, path string) (int64, error) {
	out, err := repo.Run(ctx, "ls-tree", "-z", "-l", "--full-tree", commit, "--", path)
	if err != nil {
		return 0, err
	}
	for _, entry := range git.SplitNUL(out) {
		meta, name, ok := strings.Cut(entry, "\t")
		f := strings.Fields(meta)
		if !ok || name != path || len(f) != 4 || f[1] != "blob" || f[0] == "120000" {
			continue
		}
		return strconv.ParseInt(f[3], 10, 64)
	}
	return -1, nil
}

// History calls each with a line of git rev-list --parents for the newest commits of the target branch,
// and of an agent's HEAD if it is not "".
func (w *Workspace) History(ctx context.Context, agent string, limit int, each func(string)) (target, head string, err error) {
	repo := w.Bare()
	name, err := w.Target(ctx)
	if err != nil {
		return "", "", err
	}
	if target, err = repo.Commit(ctx, git.Branch(name)); err != nil {
		return "", "", err
	}
	tips := []string{target}
	if agent != "" {
		if head, err = w.Head(ctx, agent); err != nil {
			return "", "", err
		}
		repo = w.of(agent)
		if head != "" {
			tips = append(tips, head)
		}
	}
	args := append([]string{"rev-list", "--parents", "--topo-order", "--max-count=" + strconv.Itoa(limit)}, tips...)
	return target, head, repo.Lines(ctx, git.Cmd{Args: args, Timeout: blameTime}, each)
}

// Touched returns the newest commits that changed a path or something below it, each as four lines: id,
// time in seconds, author and subject. They are those of the target branch, or, of an agent, those that
// the target has not.
func (w *Workspace) Touched(ctx context.Context, agent, path string, since time.Time, limit int) ([]string, error) {
	name, err := w.Target(ctx)
	if err != nil {
		return nil, err
	}
	repo, tips := w.Bare(), []string{git.Branch(name)}
	if agent != "" {
		head, err := w.Head(ctx, agent)
		if err != nil || head == "" {
			return nil, err
		}
		repo, tips = w.of(agent), []string{head, "--not", git.Branch(name)}
	}
	return touched(ctx, repo, tips, path, since, limit)
}

func touched(ctx context.Context, repo git.Repo, tips []string, path string, since time.Time, limit int) ([]string, error) {
	args := []string{"log", "-z", "--format=%H%n%ct%n%an%n%s", "--no-textconv", "--no-ext-diff", "--max-count=" + strconv.Itoa(limit)}
	if !since.IsZero() {
		args = append(args, "--since="+since.UTC().Format(time.RFC3339))
	}
	out, err := repo.Do(ctx, git.Cmd{Args: append(append(args, tips...), "--", path), Timeout: blameTime})
	if err != nil {
		return nil, api.Errorf(api.CodeWorktreeFailed, "find the commits that changed %q: %w", api.Shorten(path, 200), err)
	}
	return git.SplitNUL(out), nil
}

// Differs reports whether something of an agent's at or below a path differs from its HEAD.
func (w *Workspace) Differs(ctx context.Context, agent, path string) (bool, error) {
	all, err := w.Uncommitted(ctx, agent)
	for _, name := range all {
		if name == path || strings.HasPrefix(name, path+"/") {
			return true, nil
		}
	}
	return false, err
}
