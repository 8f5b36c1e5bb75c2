package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/internal/pinned"
)

// Owner is the owner of a file.
type Owner struct{ UID, GID uint32 }

// Project is the user's own checkout, seen as its owner.
type Project struct {
	git.Repo
	Path    string // the top of the working tree, without symlinks
	Owner   Owner
	Format  string // "sha1" or "sha256"
	Shallow bool
	Bare    bool
	record  pinned.Record
}

// Open returns a descriptor of the project's directory, if it is still the recorded one.
func (p *Project) Open() (*os.File, error) { return p.record.Open() }

// Project inspects the workspace's project. It returns nil, without an error, if the project is
// not a git repository, and PROJECT_CHANGED if it is not the recorded one.
func (w *Workspace) Project(ctx context.Context) (*Project, error) {
	r, dir, err := w.Open()
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return w.inspect(ctx, r, dir)
}

// look is inspect for a directory that is not the workspace's project, or not yet.
func (w *Workspace) look(ctx context.Context, r pinned.Record) (*Project, error) {
	dir, err := r.Open()
	if err != nil {
		return nil, w.untaken(r.Path, err)
	}
	defer dir.Close()
	return w.inspect(ctx, r, dir)
}

// inspect queries git about the open directory of a record, as its recorded owner.
func (w *Workspace) inspect(ctx context.Context, r pinned.Record, dir *os.File) (*Project, error) {
	if err := caged(); err != nil {
		return nil, err
	}
	path, own := r.Path, Owner{UID: r.UID, GID: r.GID}
	run := w.runner(own.UID, own.GID)
	ask := func(args ...string) (string, error) {
		out, err := run.Run(ctx, git.Cmd{
			Args: append([]string{"rev-parse"}, args...), Dir: pinned.DirPath(dir), Config: []string{"safe.directory=" + path},
		})
		return strings.TrimSuffix(string(out), "\n"), err
	}
	// One command: starting git is most of the cost. The directory comes last, for its name may
	// have any bytes.
	answer, err := ask("--is-bare-repository", "--is-inside-work-tree", "--is-shallow-repository", "--show-object-format", "--show-cdup", "--absolute-git-dir")
	if err != nil {
		return nil, w.notARepo(dir, own, err)
	}
	f := strings.SplitN(answer, "\n", 5)
	if len(f) != 5 {
		return nil, api.Errorf(api.CodeWorkspaceInvalid, "%s: git does not understand the repository: %w", path, orUnknown(nil))
	}
	p := &Project{Repo: git.Repo{Runner: run, Dir: f[4]}, Path: path, Owner: own, record: r}
	p.Bare, p.Shallow, p.Format = f[0] == "true", f[2] == "true", f[3]
	if p.Bare { // there is no line with its top
		run.Umask = p.umask()
		return p, nil
	}
	if f[1] != "true" {
		return nil, api.Errorf(api.CodeWorkspaceInvalid, "%s is inside a git directory", path).
			WithHint("give the working tree it belongs to")
	}
	up, gitDir, ok := strings.Cut(f[4], "\n")
	if !ok {
		return nil, api.Errorf(api.CodeWorkspaceInvalid, "%s: git does not understand the repository: %w", path, orUnknown(nil))
	}
	p.Dir = gitDir
	run.Umask = p.umask()
	if up != "" {
		top, err := ask("--show-toplevel")
		if err != nil {
			return nil, api.Errorf(api.CodeWorkspaceInvalid, "%s: find the top of the working tree: %w", path, err)
		}
		return nil, api.Errorf(api.CodeWorkspaceInvalid, "%s is only a part of the repository %s", path, top).
			WithHint("use the whole repository: --repo %s", top).With("toplevel", top)
	}
	return p, nil
}

// notARepo converts a failed discovery to an error, or to nil if the directory simply is not a git
// repository.
func (w *Workspace) notARepo(dir *os.File, own Owner, err error) error {
	path := dir.Name()
	var exit *git.ExitError
	if !errors.As(err, &exit) || exit.Code < 0 {
		return fmt.Errorf("look for a git repository in %s: %w", path, err)
	}
	text := exit.Stderr
	switch {
	case strings.Contains(text, "refstorage") || strings.Contains(text, "reftable"):
		return api.Errorf(api.CodeWorkspaceInvalid, "%s keeps its refs as a reftable, which the git on this machine cannot read: %w", path, err).
			WithHint("git refs migrate --ref-format=files (git 2.46 or later) converts the repository")
	case strings.Contains(text, "not a git repository"):
		if !hasGit(dir) {
			return nil
		}
		return api.Errorf(api.CodeWorkspaceInvalid, "%s has a .git, but it is not a working repository: %w", path, err).
			WithHint("git -C %s status shows what is wrong with it", path)
	}
	return api.Errorf(api.CodeWorkspaceInvalid, "open the repository at %s as uid %d: %w", path, own.UID, err)
}

// orUnknown keeps %w from printing a nil error.
func orUnknown(err error) error {
	if err == nil {
		return errors.New("unexpected answer")
	}
	return err
}
