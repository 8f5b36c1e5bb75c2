package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"polis/daemon/api/wire"
	"polis/fusefs"
	"polis/fusefs/apart"
	"polis/fusefs/overlayfs"
	"polis/fusefs/upper"
)

// An agent that shares a base tree has an overlay of the tree and its own changes. The view is above
// the overlay, or, with wire.Spec.Lower, below it: then the overlay's upper layer is the view of
// the agent's changes. The view is mounted in the shim's own directory, which no sandbox contains,
// and the overlay where the view would be.

// upperDir contains the mount of the view below the overlay. Only root may search it: the kernel
// checks no modes in the mount.
func upperDir(spec wire.Spec) string { return filepath.Join(spec.RunDir, "upper") }

func upperMount(spec wire.Spec) string { return filepath.Join(upperDir(spec), "view") }

// lowerDirs are the lower layers of the overlay above the view, the upper of them first.
func (s *Shim) lowerDirs() []string {
	if s.Spec.Setup == "" {
		return []string{s.at(s.Spec.Lower)}
	}
	return []string{s.at(s.Spec.Lower), s.at(s.Spec.Setup)}
}

// openMerged opens the tree that the overlay above the view shows. The view itself decides by its
// files (which are ignored, what a directory contains), and the kernel holds locks of the overlay
// meanwhile: it must not be read through the mount.
func (s *Shim) openMerged(v *views, root *os.File) error {
	if s.Spec.Lower == "" {
		return nil
	}
	var lower []int
	for _, path := range s.lowerDirs() {
		dir, err := openDir(path)
		if err != nil {
			return fmt.Errorf("open a lower layer of the worktree: %w", err)
		}
		defer dir.Close()
		lower = append(lower, int(dir.Fd()))
	}
	var err error
	if v.merged, err = overlayfs.NewTree(int(root.Fd()), lower...); err != nil {
		return err
	}
	s.onClose("files of the worktree", func(context.Context) error { return v.merged.Close() })
	return nil
}

// belowOverlay prepares the view for the overlay above it.
func (s *Shim) belowOverlay(cfg *fusefs.Config, v *views) error {
	if s.Spec.Lower == "" {
		return nil
	}
	for _, dir := range []string{upperDir(s.Spec), upperMount(s.Spec)} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
	work, err := s.keepDir(s.at(s.Spec.Work))
	if err != nil {
		return fmt.Errorf("open the work directory of the overlay: %w", err)
	}
	guard, err := upper.New(v.guard, v.merged, work)
	if err != nil {
		return err
	}
	s.onClose("guard of the overlay", func(context.Context) error { return guard.Close() })
	cfg.Guard, cfg.Work, cfg.Mountpoint = guard, work, upperMount(s.Spec)
	cfg.Above, cfg.AbovePaths = s.at(s.Spec.Mountpoint), []string{s.Spec.Mountpoint, s.Spec.ProjectPath}
	cfg.BeforeTrim = s.forgetOverlay // what it has looked up holds inodes of the view
	return nil
}

// forgetOverlay makes the overlay above the view, if there is one, look up again what no program uses.
func (s *Shim) forgetOverlay() {
	if s.Spec.Lower == "" {
		return
	}
	forget := func() error { return overlayfs.Forget(s.at(s.Spec.Mountpoint)) }
	if err := apart.Do(s.ctx, forget); err != nil {
		s.Log.Warn("names and memory of unused files are kept: the overlay does not forget them", "op", "trim", "err", err)
	}
}

// mountOverlay mounts the overlay above the view. The kernel uses the view meanwhile, on behalf of the caller, and this
// process must not keep the connection while it waits for an answer: see package apart.
func (s *Shim) mountOverlay(ctx context.Context) error {
	sp := s.Spec
	if sp.Lower == "" {
		return nil
	}
	view := upperMount(sp)
	layers := overlayfs.Layers{Lower: s.lowerDirs(), Upper: filepath.Join(view, fusefs.UpperName), Work: filepath.Join(view, fusefs.WorkName), Target: s.at(sp.Mountpoint), Source: fsName(sp)}
	if err := apart.Do(ctx, func() error { return fusefs.AsOverlay(func() error { return overlayfs.Mount(layers) }) }); err != nil {
		return fmt.Errorf("mount the worktree: %w", err)
	}
	s.onClose("overlay", func(context.Context) error { return unmountAll(s.at(sp.Mountpoint), fsName(sp)) })
	return nil
}
