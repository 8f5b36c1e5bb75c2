package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/git/nested"
	"polis/daemon/store"
	"polis/fusefs/fdtree"
	"polis/internal/failpoint"
)

// A fork of a worktree with layers copies the upper layer and the index, instead of saving and
// restoring all files: the base tree below is the same. The copy is in the directory of the new
// agent's layers until AddCopy makes the worktree of it; a polisd that is killed leaves it, and Sweep
// removes it.
const (
	copyUpper   = "upper"
	copyIndex   = "index"
	copyObjects = "objects"
	copyModules = "modules"
	copyData    = "data"
)

// Copied is the content of a copy.
type Copied struct {
	Head string // the commit of the worktree that was copied
	// LeftOut are the files that are too large to be copied, or mostly holes.
	LeftOut []string
}

// ErrNoCopy: a worktree cannot be copied; Save and Restore can fork it.
var ErrNoCopy = errors.New("the worktree cannot be copied")

// CopyLayers copies the worktree of an agent, of which nothing runs, for the new agent to: changed and
// untracked files and the index, and if ignored is set also the ignored files.
func (w *Workspace) CopyLayers(ctx context.Context, agent, to string, ignored bool) (Copied, error) {
	if err := errors.Join(api.CheckName(agent), api.CheckName(to)); err != nil {
		return Copied{}, err
	}
	done, err := w.exclusive(ctx, agent)
	if err != nil {
		return Copied{}, err
	}
	defer done()
	if err := w.usable(agent); err != nil {
		return Copied{}, err
	}
	id, err := w.baseOf(agent)
	if err != nil || id == "" || w.cfg.Mounts == nil || w.read(agent).Branch == "" {
		return Copied{}, errors.Join(ErrNoCopy, err)
	}
	if _, err := os.Lstat(w.tree(to)); !errors.Is(err, fs.ErrNotExist) {
		return Copied{}, errors.Join(ErrNoCopy, err)
	}
	if err := w.dropLayers(ctx, to); err != nil { // of a crash
		return Copied{}, err
	}
	c := copier{w: w, agent: agent, to: to, dir: w.layout().LayersCopy(to)}
	if err := c.copy(ctx, id, ignored); err != nil {
		drop, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		if err = errors.Join(err, w.dropLayers(drop, to)); errors.Is(err, ErrNoCopy) {
			return Copied{}, err
		}
		return Copied{}, api.Errorf(api.CodeWorktreeFailed, "copy the worktree of %s: %w", agent, err)
	}
	return c.out, nil
}

// DropCopy removes a copy that no worktree was made of.
func (w *Workspace) DropCopy(ctx context.Context, agent string) error {
	for path, there := range map[string]bool{w.layout().LayersCopy(agent): true, w.tree(agent): false} {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) == there {
			return nil
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return w.dropLayers(ctx, agent)
}

// copier makes one copy.
type copier struct {
	w         *Workspace
	agent, to string
	dir       string
	out       Copied
}

func (c *copier) copy(ctx context.Context, id string, ignored bool) error {
	l := c.w.layout()
	for _, dir := range []string{filepath.Dir(l.Layers(c.to)), l.Layers(c.to), l.LayersWork(c.to), l.LayersMerged(c.to), c.dir} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	// The other worktree has the base in use meanwhile; from here on the new one has.
	if err := writeBase(l.LayersBase(c.to), id); err != nil {
		return err
	}
	setup, err := ReadSetup(l.LayersSetup(c.agent))
	if err == nil && setup != nil {
		err = store.WriteSummed(l.LayersSetup(c.to), setup)
	}
	if err != nil {
		return err
	}
	failpoint.Hit("copy:claimed")
	var herr error
	head := make(chan struct{})
	go func() {
		defer close(head)
		c.out.Head, herr = c.w.head(ctx, c.agent)
	}()
	err = c.content(ctx, id, ignored)
	<-head
	if err = errors.Join(err, herr); err == nil && c.out.Head == "" {
		err = ErrNoCopy
	}
	failpoint.Hit("copy:made")
	return err
}

func (c *copier) content(ctx context.Context, id string, ignored bool) error {
	set, err := c.w.listChanges(ctx, c.agent, id)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%w: %w", ErrNoCopy, err)
	}
	var skip []string
	if !ignored {
		if skip, err = c.ignored(ctx, set); err != nil {
			return err
		}
	}
	if err := c.upper(ctx, skip); err != nil {
		return err
	}
	if err := c.w.writeIndex(filepath.Join(c.dir, copyIndex), set.bytes, set.written); err != nil {
		return err
	}
	if err := c.modules(ctx); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(c.dir, copyData), 0o700); err != nil {
		return err
	}
	if _, err := c.w.copyData(ctx, c.agent, filepath.Join(c.dir, copyData)); err != nil {
		return err
	}
	return c.objects(ctx, set)
}

// modules copies the repositories of submodules, and has their directories and them refer to the new agent.
func (c *copier) modules(ctx context.Context) error {
	dir := filepath.Join(c.dir, copyModules)
	if err := c.w.copyModules(ctx, c.agent, dir); err != nil {
		return err
	}
	modules, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer modules.Close()
	tree, err := os.OpenRoot(filepath.Join(c.dir, copyUpper))
	if err != nil {
		return err
	}
	defer tree.Close()
	return nested.Relink(ctx, modules, tree, []string{"."}, c.agent, c.to)
}

// ignored lists what git ignores, a directory as one.
func (c *copier) ignored(ctx context.Context, set *changeSet) ([]string, error) {
	out, err := c.w.readChanges(ctx, c.agent, View{}, set, []string{"ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"})
	if err != nil {
		return nil, fmt.Errorf("list ignored files: %w", err)
	}
	names := git.SplitNUL(out)
	for i := range names {
		names[i] = strings.TrimSuffix(names[i], "/")
	}
	return names, nil
}

// upper copies the upper layer but .git and the paths to skip.
func (c *copier) upper(ctx context.Context, skip []string) error {
	from, err := c.w.uncoveredDir(c.agent)
	if err != nil {
		return err
	}
	defer from.Close()
	dir := filepath.Join(c.dir, copyUpper)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	to, err := openDir(dir, dir)
	if err != nil {
		return err
	}
	defer to.Close()
	skips := make(map[string]bool, len(skip)+1)
	for _, name := range append(skip, ".git") {
		skips[name] = true
	}
	tree := fdtree.Copier{
		Skip: func(path string, st *unix.Stat_t) bool {
			if skips[path] {
				return true
			}
			if st.Mode&unix.S_IFMT == unix.S_IFREG && tooLargeFor(st.Size, st.Blocks) {
				c.out.LeftOut = append(c.out.LeftOut, path)
				return true
			}
			return false
		},
		// What makes a directory replace that of the base, and what the agent set. The other
		// attributes of the overlay are about the files that were copied.
		Attr: func(name string) bool {
			return name == "trusted.overlay.opaque" || name == "trusted.overlay.redirect" || strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "system.posix_acl_")
		},
	}
	err = tree.Copy(ctx, int(from.Fd()), int(to.Fd()))
	if errors.Is(err, fdtree.ErrDeep) {
		return fmt.Errorf("%w: %w", ErrNoCopy, err)
	}
	return err
}

// objects links the objects of staged files that only the agent has.
func (c *copier) objects(ctx context.Context, set *changeSet) error {
	own := c.w.ownDir(c.agent)
	if fi, err := os.Lstat(own); err != nil || !fi.IsDir() {
		return nil //nolint:nilerr // it has never had a view
	}
	var ids []string
	for _, name := range set.staged {
		ids = append(ids, set.index.IDs(name)...)
	}
	if len(ids) == 0 {
		return nil
	}
	to := filepath.Join(c.dir, copyObjects)
	for _, dir := range []string{to, filepath.Join(to, "pack")} {
		if err := errors.Join(os.Mkdir(dir, 0o700), give(dir, c.w.cfg.UID, c.w.cfg.GID)); err != nil {
			return err
		}
	}
	rest, err := c.w.Bare().Own(to).LinkLoose(ctx, c.w.of(c.agent), ids)
	if err != nil {
		return err
	}
	if packs, err := os.ReadDir(filepath.Join(own, "pack")); err != nil || len(packs) == 0 || len(rest) == 0 {
		return nil //nolint:nilerr // what is in neither is in the shared store, or damaged
	}
	// Most of the rest is in the shared store, some may be in a pack of the agent's own.
	if err := c.w.Bare().Borrow(ctx, c.w.Bare().Own(to), own, rest...); err != nil {
		return fmt.Errorf("%w: %w", ErrNoCopy, err)
	}
	return nil
}
