package worktree

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"polis/daemon/api"
	"polis/daemon/git"
)

// restoreTimeout bounds writing back saved work.
const restoreTimeout = 30 * time.Minute

// Restore restores what Save saved: the branch at its commit, the worktree with its index, and
// every changed file with its content. agent and branch may be empty: those of the saved work.
// The trash ref stays.
func (w *Workspace) Restore(ctx context.Context, ref, agent, branch string) (Worktree, error) {
	if err := w.guardInternal(); err != nil {
		return Worktree{}, err
	}
	t, index, err := w.trashed(ctx, ref)
	if err != nil {
		return Worktree{}, err
	}
	if agent == "" {
		agent = t.Agent
	}
	if branch == "" {
		branch = t.Branch
	}
	if branch == "" {
		branch = "agent/" + agent
	}
	if t.Head == "" {
		return Worktree{}, api.Errorf(api.CodeWorktreeFailed, "%s was saved on a branch without commits", ref).
			WithHint("its files are in the commit itself: git --git-dir %s ls-tree -r %s", w.internalDir(), ref)
	}
	switch has := w.read(agent); {
	case api.CheckName(agent) != nil:
		return Worktree{}, api.CheckName(agent)
	case !errors.Is(has.Broken, errAbsent):
		return Worktree{}, api.Errorf(api.CodeWorktreeFailed, "agent %s has a worktree already", agent).
			WithHint("remove it first, or restore under another name")
	}
	if err := git.CheckBranch(branch); err != nil {
		return Worktree{}, api.Errorf(api.CodeInvalidName, "%w", err)
	}
	tip, err := w.Bare().Ref(ctx, git.Branch(branch))
	fresh := errors.Is(err, git.ErrNotFound)
	if err != nil && !fresh {
		return Worktree{}, api.Errorf(api.CodeWorktreeFailed, "find branch %s: %w", branch, err)
	}
	if !fresh && tip != t.Head {
		return Worktree{}, api.Errorf(api.CodeRefConflict, "branch %s exists and is not at the commit that it had when the work was saved", branch).
			WithHint("restore to another branch: --branch NAME")
	}
	if err := w.Bare().Borrow(ctx, w.Bare(), w.Internal().ObjectDir(), t.Head+"^{commit}"); err != nil {
		return Worktree{}, api.Errorf(api.CodeWorktreeFailed, "restore the commits of %s: %w", ref, err)
	}
	made, err := w.Add(ctx, agent, branch, t.Head)
	if err != nil {
		return Worktree{}, err
	}
	done, err := w.exclusive(ctx, agent)
	if err != nil {
		return Worktree{}, err
	}
	defer done()
	err = w.refill(ctx, agent, t, index)
	if err == nil {
		err = w.refillNested(ctx, agent, t)
	}
	if err == nil {
		err = w.restoreRefs(ctx, agent, t.Commit, t.Refs)
	}
	if err != nil {
		// The saved work still exists; a half-filled worktree can be removed.
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		err = errors.Join(err, w.remove(undo, agent))
		if fresh {
			err = errors.Join(err, w.Bare().Delete(undo, git.Branch(branch), t.Head))
		}
		return Worktree{}, api.Errorf(api.CodeWorktreeFailed, "restore %s: %w", ref, err)
	}
	w.cfg.Log.Info("work restored", "agent", agent, "op", "restore", "path", ref)
	return made, nil
}

// change is a path at which the saved files differ from the saved index.
type change struct {
	mode, oid, path string // mode 000000: deleted
}

func (w *Workspace) refill(ctx context.Context, agent string, t TrashRef, index string) error {
	if index == "" { // only commits were saved
		return nil
	}
	commit := t.Commit
	if err := w.lend(ctx, agent, commit); err != nil {
		return err
	}
	bare := w.Internal()
	if err := w.readTree(ctx, agent, "--reset", "-u", index); err != nil {
		return fmt.Errorf("restore the index: %w", err)
	}
	out, err := bare.Run(ctx, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--end-of-options", index, commit)
	if err != nil {
		return fmt.Errorf("compare index and files: %w", err)
	}
	changes, err := parseRaw(out)
	if err != nil {
		return err
	}
	dir, err := w.attach(ctx, agent)
	if err != nil {
		return err
	}
	root, err := w.openRoot(cmp.Or(dir, w.tree(agent)))
	if err != nil {
		return err
	}
	defer root.Close()
	write, err := w.stagedOutside(ctx, agent, t.Head, index)
	if err != nil {
		return err
	}
	for _, c := range changes {
		if c.mode != "000000" {
			write = append(write, c)
			continue
		}
		if err := root.Remove(c.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for dir := filepath.Dir(c.path); dir != "."; dir = filepath.Dir(dir) {
			if root.Remove(dir) != nil { // not empty
				break
			}
		}
	}
	return w.writeBlobs(ctx, root, write)
}

// lend gives an agent the objects of a commit that no shared ref reaches: they are its own again,
// and in no ref that others see.
func (w *Workspace) lend(ctx context.Context, agent, commit string) error {
	if err := w.makeOwnDir(agent); err != nil {
		return fmt.Errorf("make a place for the agent's objects: %w", err)
	}
	return w.Bare().Borrow(ctx, w.Bare().Own(w.ownDir(agent)), w.Internal().ObjectDir(), commit)
}

// parseRaw reads diff-tree --raw -z.
func parseRaw(out []byte) ([]change, error) {
	fields := git.SplitNUL(out)
	if len(fields)%2 != 0 {
		return nil, errors.New("git diff-tree: odd number of fields")
	}
	var list []change
	for i := 0; i < len(fields); i += 2 {
		f := strings.Fields(strings.TrimPrefix(fields[i], ":"))
		if len(f) != 5 || !git.IsOID(f[3]) || !filepath.IsLocal(fields[i+1]) {
			return nil, fmt.Errorf("git diff-tree: cannot read %q", api.Shorten(fields[i], 200))
		}
		list = append(list, change{mode: f[1], oid: f[3], path: fields[i+1]})
	}
	return list, nil
}

// writeBlobs writes files exactly as they are stored: no line-end conversion,
// no filter. Two goroutines feed and read one cat-file.
func (w *Workspace) writeBlobs(ctx context.Context, root *os.Root, list []change) error {
	if len(list) == 0 {
		return nil
	}
	var in strings.Builder
	for _, c := range list {
		in.WriteString(c.oid + "\n")
	}
	group, ctx := errgroup.WithContext(ctx)
	r, pipe := io.Pipe()
	group.Go(func() error {
		_, err := w.Internal().Do(ctx, git.Cmd{
			Args: []string{"cat-file", "--batch"}, Stdin: strings.NewReader(in.String()), Stdout: pipe, Timeout: restoreTimeout,
		})
		pipe.CloseWithError(err)
		return err
	})
	group.Go(func() error {
		src := bufio.NewReaderSize(r, 64<<10)
		for _, c := range list {
			if err := w.writeBlob(root, c, src); err != nil {
				err = fmt.Errorf("restore %q: %w", c.path, err)
				r.CloseWithError(err)
				return err
			}
		}
		return r.CloseWithError(nil)
	})
	return group.Wait()
}

func (w *Workspace) writeBlob(root *os.Root, c change, src *bufio.Reader) error {
	head, err := src.ReadString('\n')
	if err != nil {
		return err
	}
	f := strings.Fields(head)
	if len(f) == 2 && c.mode == "160000" {
		return nil // a submodule: its commit is in another repository
	}
	if len(f) != 3 || f[0] != c.oid || f[1] != "blob" {
		return fmt.Errorf("git cat-file: cannot read %q", api.Shorten(head, 80))
	}
	size, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil {
		return fmt.Errorf("git cat-file: cannot read %q", api.Shorten(head, 80))
	}
	body := io.LimitReader(src, size)
	if err := w.parents(root, filepath.Dir(c.path)); err != nil {
		return err
	}
	if err := root.Remove(c.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if c.mode == "120000" {
		to, err := io.ReadAll(body)
		if err != nil {
			return err
		}
		if err := root.Symlink(string(to), c.path); err != nil {
			return err
		}
	} else if err := writeFile(root, c, body); err != nil {
		return err
	}
	if _, err := src.ReadByte(); err != nil { // the newline behind the contents
		return err
	}
	return w.own(root, c.path)
}

func writeFile(root *os.Root, c change, body io.Reader) error {
	mode := fs.FileMode(0o644)
	if c.mode == "100755" {
		mode = 0o755
	}
	f, err := root.OpenFile(c.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, body)
	return errors.Join(err, f.Close())
}

// parents creates the directories of a file, with the workspace's owner.
func (w *Workspace) parents(root *os.Root, dir string) error {
	if dir == "." {
		return nil
	}
	if err := root.Mkdir(dir, 0o755); err == nil {
		return w.own(root, dir)
	} else if errors.Is(err, fs.ErrExist) {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := w.parents(root, filepath.Dir(dir)); err != nil {
		return err
	}
	if err := root.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return w.own(root, dir)
}

func (w *Workspace) own(root *os.Root, path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return root.Lchown(path, int(w.cfg.UID), int(w.cfg.GID))
}
