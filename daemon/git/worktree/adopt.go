package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/fusefs/fdtree"
	"polis/internal/pinned"
)

// project makes sure that the workspace's project is the requested one.
func (u *upper) project(ctx context.Context, from source) error {
	link := u.w.linkPath()
	real, err := filepath.EvalSymlinks(link)
	exists := err == nil
	r, unrecorded := u.w.ReadRecord()
	switch {
	case unrecorded == nil:
		// What is at the path now does not count.
		gone := r.Check()
		real, exists = r.Path, true
		if _, err := os.Lstat(r.Path); err != nil && errors.Is(gone, pinned.ErrChanged) && from.path != "" && from.path != r.Path {
			exists = false
		}
	case !errors.Is(unrecorded, fs.ErrNotExist):
		return unrecorded
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return api.Errorf(api.CodeWorkspaceInvalid, "the project of %s: %w", u.spec.Workspace, err)
	default:
		if _, err := os.Lstat(link); err == nil && !exists && from.path == "" {
			return u.w.changed(pinned.Record{Path: link}, fmt.Errorf("%w: %s leads nowhere", pinned.ErrChanged, link))
		}
	}
	var given pinned.Record
	if from.path != "" && !(exists && real == from.path) {
		if given, err = pinned.Take(from.path); err != nil {
			return u.w.untaken(from.path, err)
		}
		if !u.spec.Plain {
			p, err := u.w.look(ctx, given)
			if err != nil {
				return err
			}
			if p != nil && p.Bare {
				if err := u.mayClone(ctx, p, exists); err != nil {
					return err
				}
				u.cloned, from = from.path, source{url: "file://" + from.path}
			}
		}
	}
	switch {
	case from == source{}:
		return nil
	case from.url != "" && exists:
		return u.sameOrigin(ctx, real, r, from.url)
	case from.url != "":
		return u.clone(ctx, from.url)
	case exists && real == from.path:
		return nil
	case exists:
		return api.Errorf(api.CodeWorkspaceInvalid, "workspace %s already belongs to %s", u.spec.Workspace, real).
			WithHint("make another workspace for %s", from.path)
	}
	if unrecorded == nil { // it has moved, and was recorded where it was
		if given.UID != r.UID {
			return api.Errorf(api.CodeWorkspaceInvalid, "%s belongs to uid %d, and the project of the workspace to uid %d", from.path, given.UID, r.UID)
		}
		if u.spec.Plain {
			given.Git = nil
		}
		if err := u.save(given); err != nil {
			return err
		}
	}
	return u.link(from.path)
}

// link points the workspace's project to path; it replaces a dangling link.
func (u *upper) link(path string) error {
	tmp := filepath.Join(u.w.polis(), "project.new")
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return api.Errorf(api.CodeWorkspaceInvalid, "link the project: %w", err)
	}
	if err := os.Symlink(path, tmp); err != nil {
		return api.Errorf(api.CodeWorkspaceInvalid, "link the project: %w", err)
	}
	if err := os.Rename(tmp, u.w.linkPath()); err != nil {
		return api.Errorf(api.CodeWorkspaceInvalid, "link the project: %w", err)
	}
	u.changed = true
	return nil
}

// sameOrigin rejects another URL than the one the project was cloned from.
func (u *upper) sameOrigin(ctx context.Context, path string, r pinned.Record, url string) (err error) {
	if r.Path == "" {
		if r, err = pinned.Take(path); err != nil {
			return u.w.untaken(path, err)
		}
	} else if err := r.Check(); err != nil {
		return u.w.changed(r, err)
	}
	p, err := u.w.look(ctx, r)
	if err != nil {
		return err
	}
	var has string
	if p != nil {
		has, err = p.Line(ctx, "config", "--local", "--get", "remote.origin.url")
		if code, ok := git.ExitCode(err); err != nil && (!ok || code != 1) {
			return err
		}
	}
	if has != url {
		return api.Errorf(api.CodeWorkspaceInvalid, "workspace %s already belongs to a clone of %q", u.spec.Workspace, has).
			WithHint("make another workspace for %s", url)
	}
	return nil
}

// cloneTimeout bounds the clone of a project from a URL.
const cloneTimeout = 30 * time.Minute

// clone makes the project from a URL, first beside its final path, so that an interrupted clone
// is never taken for a project.
func (u *upper) clone(ctx context.Context, url string) error {
	u.spec.Progress("clone " + url)
	tmp, err := u.scratch("clone-")
	if err != nil {
		return err
	}
	defer fdtree.Cleanup(tmp) //nolint:errcheck // a temporary directory of ours
	// A file:// URL is served by a git process of its own, which reads the permission to read
	// another user's repository only from a configuration file.
	global := filepath.Join(tmp, "gitconfig")
	root, err := os.OpenRoot(tmp)
	if err != nil {
		return api.Errorf(api.CodeWorkspaceInvalid, "clone %s: %w", url, err)
	}
	defer root.Close()
	if err := u.w.createFile(root, filepath.Base(global), "[safe]\n\tdirectory = *\n"); err != nil {
		return api.Errorf(api.CodeWorkspaceInvalid, "clone %s: %w", url, err)
	}
	dir := filepath.Join(tmp, "project")
	_, err = u.w.runner(u.spec.UID, u.spec.GID).Run(ctx, git.Cmd{
		Args: []string{"clone", "--progress", "--no-local", "--origin", "origin", "--", url, dir},
		Dir:  tmp, Global: global, Remote: true, Timeout: cloneTimeout,
		Progress: func(s git.Step) { u.spec.Progress("clone: " + s.String()) },
	})
	if err != nil {
		return api.Errorf(api.CodeWorkspaceInvalid, "clone %s: %w", url, err).
			WithHint("polis has no credentials and does not prompt for any; if the repository is not public, clone it yourself and give the path")
	}
	if err := u.place(tmp, filepath.Base(dir), u.w.linkPath()); err != nil {
		return api.Errorf(api.CodeWorkspaceInvalid, "clone %s: %w", url, err)
	}
	u.changed = true
	return nil
}
