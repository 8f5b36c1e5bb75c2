package sandbox

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"polis/cgroup"
	"polis/cgroup/unotify"
	"polis/fusefs/fdtree"
)

// Kill kills everything inside, process 1 too, and returns when no process is left. The sandbox
// has then ended; Destroy removes its files and groups.
func (s *Sandbox) Kill(ctx context.Context) error {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	return s.group.Kill(ctx)
}

// Destroy kills everything inside, however it was started, and removes the control group (and the
// groups above it that are then empty), the root directory and the state. It can be called again
// after an error, and then continues. Wait of every process returns before it.
func (s *Sandbox) Destroy(ctx context.Context) error {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	return s.release(ctx)
}

func (s *Sandbox) release(ctx context.Context) error {
	if s.stopWatch != nil {
		s.stopWatch()
	}
	killed := s.group.Kill(ctx)
	if s.alive != nil {
		// A second call closes it twice, which is harmless.
		_ = s.alive.Close()
	}
	if killed != nil {
		return fmt.Errorf("destroy sandbox: %w", killed)
	}
	if s.stopReap != nil {
		s.stopReap()
	}
	if s.supervisor != nil {
		if err := s.supervisor.Stop(); err != nil {
			return fmt.Errorf("destroy sandbox: %w", err)
		}
	}
	if err := s.join(ctx); err != nil {
		return fmt.Errorf("destroy sandbox: %w", err)
	}
	return Cleanup(ctx, s.cfg.StateDir, s.cfg.ID, s.cfg.RootfsDir, s.cfg.CgroupPath)
}

// join waits for the sandbox's goroutines.
func (s *Sandbox) join(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		s.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Cleanup removes the remains of a sandbox whose creator died: processes, control group, root
// directory and state. Missing parts are no error, so it may be called at any time for a sandbox
// that is not in use. It starts no process.
func Cleanup(ctx context.Context, stateDir, id, rootfsDir, cgroupPath string) error {
	if !goodID.MatchString(id) || !filepath.IsAbs(stateDir) {
		return fmt.Errorf("clean up sandbox: %w: id %q, state directory %q", ErrConfig, id, stateDir)
	}
	host, err := cgroup.Detect()
	if err != nil {
		return fmt.Errorf("clean up sandbox: %w: %w", ErrCgroup, err)
	}
	group, err := host.Group(cgroupPath)
	if err != nil {
		return fmt.Errorf("clean up sandbox: %w: %w", ErrCgroup, err)
	}
	if err := group.Kill(ctx); err != nil {
		return fmt.Errorf("clean up sandbox: %w: %w", ErrCgroup, err)
	}
	var errs []error
	if err := errors.Join(group.Remove(ctx), group.Prune()); err != nil {
		errs = append(errs, fmt.Errorf("%w: %w", ErrCgroup, err))
	}
	if err := removeRootfs(rootfsDir); err != nil {
		errs = append(errs, fmt.Errorf("%w: %w", ErrNamespace, err))
	}
	if err := errors.Join(fdtree.RemoveAll(ctx, filepath.Join(stateDir, id)), unotify.Remove(supervisorDir(stateDir, id)), removeStage(stateDir, id)); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clean up sandbox: %w", err)
	}
	return nil
}
