package merge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/git"
	"polis/daemon/git/worktree"
	"polis/daemon/merge/gate"
	"polis/internal/asuser"
	"polis/internal/pinned"
)

// before is the part of the user's checkout that a fast-forward will change, as it was. git
// checks out what it can and stops at an error (a read-only directory, a full disk), and leaves
// what it wrote: undo reverts that.
type before struct {
	p       *worktree.Project
	dir     *os.File // the checkout, which its owner can exchange
	conv    *conversions
	changes []gate.Change
	modes   *modes
	unkept  func(error)     // reports that the permissions of files are not kept
	was     map[string]kind // of the names of changes, and of directories above added ones
}

type kind uint8

const (
	none kind = iota
	file      // or a link
	directory
)

// remember reads every name that differs between two commits of the project, whose open directory is dir.
func remember(p *worktree.Project, dir *os.File, conv *conversions, changes []gate.Change) (*before, error) {
	b := &before{p: p, dir: dir, conv: conv, changes: changes, was: map[string]kind{}, unkept: func(error) {}}
	return b, b.asOwner(b.read)
}

// asOwner calls f with the checkout and the rights of its owner, who could move a directory of another user into it.
func (b *before) asOwner(f func(*os.Root) error) error {
	return asuser.Do(b.p.Owner.UID, b.p.Owner.GID, func() error {
		root, err := os.OpenRoot(pinned.DirPath(b.dir))
		if err != nil {
			return fmt.Errorf("open the checkout: %w", err)
		}
		return errors.Join(f(root), root.Close())
	})
}

func (b *before) read(root *os.Root) (err error) {
	if b.modes, err = readModes(root, b.changes); err != nil {
		return fmt.Errorf("read the permissions of files: %w", err)
	}
	for _, c := range b.changes {
		names := []string{c.Path}
		if c.Old == gate.ModeNone {
			for dir := path.Dir(c.Path); dir != "."; dir = path.Dir(dir) {
				names = append(names, dir)
			}
		}
		for _, name := range names {
			if _, known := b.was[name]; known {
				continue
			}
			fi, err := root.Lstat(name)
			switch {
			case err != nil && !absent(err):
				return fmt.Errorf("inspect %q: %w", short(name), err)
			case err != nil:
				b.was[name] = none
			case fi.IsDir():
				b.was[name] = directory
			default:
				b.was[name] = file
			}
		}
	}
	return nil
}

// absent reports that a name does not exist: it, a directory above it, or what should be a
// directory is a file.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENAMETOOLONG)
}

// undo restores the checkout after a fast-forward that failed. It reverts only what git has
// written: a file whose content is neither that of the merge nor a beginning of it is left
// unchanged and named.
func (b *before) undo(ctx context.Context) (left []string, err error) {
	err = b.asOwner(func(root *os.Root) (err error) {
		left, err = b.undoIn(ctx, root)
		return err
	})
	return left, err
}

func (b *before) undoIn(ctx context.Context, root *os.Root) (left []string, err error) {
	var dirs, restore []string
	for _, c := range b.changes {
		if c.New == gate.ModeGitlink || c.Old == gate.ModeGitlink {
			continue // git creates at most an empty directory for it
		}
		state, err := b.stateOf(ctx, root, c)
		if err != nil {
			return left, err
		}
		switch {
		case state == foreign:
			left = append(left, c.Path)
		case b.was[c.Path] == none && state == written:
			if err := root.Remove(c.Path); err != nil {
				return left, fmt.Errorf("roll back %q: %w", short(c.Path), err)
			}
		case b.was[c.Path] == file && state != untouched:
			restore = append(restore, c.Path)
		}
		for dir := path.Dir(c.Path); c.Old == gate.ModeNone && dir != "." && b.was[dir] != directory; dir = path.Dir(dir) {
			dirs = append(dirs, dir)
		}
	}
	// Deepest first. A directory that is not empty contains files of the user.
	slices.SortFunc(dirs, func(x, y string) int { return cmp.Or(len(y)-len(x), strings.Compare(x, y)) })
	for _, dir := range slices.Compact(dirs) {
		if err := rmdir(root, dir); err != nil && !absent(err) && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
			return left, fmt.Errorf("roll back %q: %w", short(dir), err)
		}
	}
	var names strings.Builder
	for _, name := range restore {
		// git would remove a directory in the way with all that is in it.
		if fi, err := root.Lstat(name); err == nil && fi.IsDir() {
			left = append(left, name)
			continue
		}
		names.WriteString(name + "\x00")
	}
	if names.Len() == 0 {
		return left, nil
	}
	// The index is still the old one: git replaces it last.
	cmd := b.conv.inside(b.p, "checkout-index", "--force", "--index", "-z", "--stdin")
	cmd.Stdin, cmd.Write = strings.NewReader(names.String()), []string{b.p.Path}
	if _, err := b.p.Do(ctx, cmd); err != nil {
		return left, fmt.Errorf("restore what was there: %w", err)
	}
	for _, name := range restore {
		if was, known := b.modes.files[name]; known {
			if err := chmod(root, name, was, false); err != nil {
				return left, fmt.Errorf("restore what was there: %w", err)
			}
		}
	}
	return left, nil
}

// rmdir removes an empty directory, and never a file of that name.
func rmdir(root *os.Root, dir string) error {
	parent, err := root.Open(path.Dir(dir))
	if err != nil {
		return err
	}
	defer parent.Close()
	return unix.Unlinkat(int(parent.Fd()), path.Base(dir), unix.AT_REMOVEDIR)
}

// state is what a fast-forward has done to a name.
type state int

const (
	untouched state = iota // as it was
	missing                // it was there, and is not
	written                // it has the new content, or the beginning of it
	foreign                // it has another content
)

func (b *before) stateOf(ctx context.Context, root *os.Root, c gate.Change) (state, error) {
	fi, err := root.Lstat(c.Path)
	switch {
	case err != nil && absent(err):
		if b.was[c.Path] == none {
			return untouched, nil
		}
		return missing, nil
	case err != nil:
		return 0, fmt.Errorf("inspect %q: %w", short(c.Path), err)
	case fi.IsDir() && b.was[c.Path] == file:
		return missing, nil // what is in the directory has entries of its own
	case fi.IsDir():
		return untouched, nil
	}
	var in io.Reader
	size := fi.Size()
	switch {
	case fi.Mode()&fs.ModeSymlink != 0:
		to, err := root.Readlink(c.Path)
		if err != nil {
			return 0, fmt.Errorf("read %q: %w", short(c.Path), err)
		}
		in, size = strings.NewReader(to), int64(len(to))
	case fi.Mode().IsRegular():
		f, err := root.OpenFile(c.Path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
		if err != nil {
			return 0, fmt.Errorf("read %q: %w", short(c.Path), err)
		}
		defer f.Close()
		in = f
	default:
		return foreign, nil
	}
	most, err := b.largest(ctx, c)
	if err != nil {
		return 0, err
	}
	if size > most {
		return foreign, nil
	}
	id, err := blobID(in, size, len(c.ID))
	if err != nil {
		return 0, fmt.Errorf("read %q: %w", short(c.Path), err)
	}
	if id != c.ID && id != c.OldID && fi.Mode().IsRegular() {
		// Line endings may be converted; no filter applies (see refuse).
		out, err := b.p.Do(ctx, b.conv.inside(b.p, "hash-object", "--path="+c.Path, "--", path.Join(b.p.Path, c.Path)))
		if err != nil {
			return 0, fmt.Errorf("read %q: %w", short(c.Path), err)
		}
		id = strings.TrimSpace(string(out))
	}
	executable := fi.Mode().IsRegular() && fi.Mode()&0o100 != 0
	switch {
	case id == c.OldID && (c.OldID != c.ID || executable == (c.Old == gate.ModeExec)):
		return untouched, nil
	case id == c.ID:
		return written, nil
	}
	if c.New != gate.ModeNone && fi.Mode().IsRegular() && b.begins(ctx, root, c) {
		return written, nil
	}
	return foreign, nil
}

// fastForward brings the checkout to a commit, or restores it.
func (b *before) fastForward(ctx context.Context, commit string) error {
	// git itself refuses to overwrite an untracked file, and an ignored one.
	forward := b.conv.inside(b.p, "merge", "--ff-only", "--no-overwrite-ignore", "--no-stat", "--quiet", "--end-of-options", commit)
	forward.Write = []string{b.p.Path}
	_, err := b.p.Do(ctx, forward)
	if err != nil {
		if now, look := b.p.Commit(ctx, "HEAD"); look == nil && now == commit {
			err = nil // it succeeded, and something failed afterwards
		}
	}
	if err == nil {
		if err := b.asOwner(func(root *os.Root) error { return b.modes.keep(root, b) }); err != nil {
			b.unkept(err)
		}
		return nil
	}
	uctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	left, undone := b.undo(uctx)
	switch {
	case undone != nil:
		return fmt.Errorf("the checkout could not be updated, nor restored (%w): %w", undone, err)
	}
	return notUpdated(left, err)
}

// notUpdated is the error for a checkout that is as before. left are names whose content is of its owner: they were
// not touched.
func notUpdated(left []string, err error) error {
	if len(left) > 0 {
		return fmt.Errorf("the checkout could not be updated and is as before, with your own changes of %s: %w", name(left, 3), err)
	}
	return fmt.Errorf("the checkout could not be updated and is as before: %w", err)
}

// changesOf lists what a fast-forward from one commit to another changes.
func changesOf(ctx context.Context, repo git.Repo, from, to string) ([]gate.Change, error) {
	list, err := gate.Changes(ctx, repo, from, to)
	if err != nil {
		return nil, fmt.Errorf("list what the merge changes: %w", err)
	}
	return list, nil
}

func short(s string) string { return s[:min(len(s), 120)] }
