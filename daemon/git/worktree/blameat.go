package worktree

import (
	"context"
	"strconv"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/git"
)

// BlameAt returns of which commits the lines of a file of a commit are.
func (w *Workspace) BlameAt(ctx context.Context, commit, path string) (Blamed, error) {
	size, err := committed(ctx, w.Bare(), commit, path)
	switch {
	case err != nil:
	case size < 0:
		return Blamed{}, notAFile(path)
	case size > maxBlame:
		return Blamed{}, tooLarge(path)
	default:
		var out []byte
		out, err = w.Bare().Do(ctx, git.Cmd{Args: []string{"blame", "--porcelain", "--ignore-revs-file=", commit, "--", path}, Timeout: blameTime})
		if err == nil {
			return Blamed{Head: commit, Porcelain: out}, nil
		}
	}
	return Blamed{}, api.Errorf(api.CodeWorktreeFailed, "blame %q in commit %s: %w", api.Shorten(path, 200), commit, err)
}

// Committed returns a file of a commit; false if the commit has no such file, or one that is too large to compare.
func (w *Workspace) Committed(ctx context.Context, commit, path string) ([]byte, bool, error) {
	size, err := committed(ctx, w.Bare(), commit, path)
	if err == nil && (size < 0 || size > maxBlame) {
		return nil, false, nil
	}
	var out []byte
	if err == nil {
		out, err = w.Bare().Run(ctx, "cat-file", "blob", commit+":"+path)
	}
	if err != nil {
		return nil, false, api.Errorf(api.CodeWorktreeFailed, "read %q of commit %s: %w", api.Shorten(path, 200), commit, err)
	}
	return out, true, nil
}

// Beyond calls each with a line of git rev-list --parents for the newest commits that some others have and the target
// has not. Commits that git does not have any more are left out.
func (w *Workspace) Beyond(ctx context.Context, commits []string, limit int, each func(string)) error {
	name, err := w.Target(ctx)
	if err != nil || len(commits) == 0 {
		return err
	}
	args := []string{"rev-list", "--parents", "--topo-order", "--ignore-missing", "--max-count=" + strconv.Itoa(limit), "--stdin"}
	in := strings.NewReader(strings.Join(commits, "\n") + "\n^" + git.Branch(name) + "\n")
	return w.Bare().Lines(ctx, git.Cmd{Args: args, Stdin: in, Timeout: blameTime}, each)
}

// TouchedAt is Touched of commits: what they have and the target has not.
func (w *Workspace) TouchedAt(ctx context.Context, commits []string, path string, since time.Time, limit int) ([]string, error) {
	name, err := w.Target(ctx)
	if err != nil || len(commits) == 0 {
		return nil, err
	}
	return touched(ctx, w.Bare(), append(append([]string{"--ignore-missing"}, commits...), "--not", git.Branch(name)), path, since, limit)
}
