package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/host/walk"
	"polis/internal/pinned"
)

// The owner of a project can exchange its directory, and what is in the shared repository, at any moment. A user in
// whose directory a workspace lies can exchange the workspace. So the shim resolves two paths once, when it starts:
// that of the project, which must be the recorded one, and that of the directory of the workspace that polis has,
// which must be root's. What is below them is opened from these descriptors.

// openState opens the directory of the workspace that polis has.
func openState(sp wire.Spec) (*os.File, error) {
	dir := stateOf(sp)
	if dir == "" {
		return nil, fmt.Errorf("the spec of %s names no directory of the workspace", sp.Agent)
	}
	f, err := walk.Own(dir, uint32(sp.UID))
	return f, walk.Refused("the workspace of "+sp.Agent, err)
}

// stateOf returns the path of the directory. An older polisd wrote specs without it.
func stateOf(sp wire.Spec) string {
	if sp.State == "" && sp.LogDir != "" && sp.Check == nil {
		return filepath.Dir(filepath.Dir(sp.LogDir))
	}
	return sp.State
}

// openPlaces opens the directory of the workspace, and the project if it is the recorded one. close closes the
// project, which is needed only for the start. The other one stays open until the process ends: the paths that at
// returns have its number.
func (s *Shim) openPlaces() (close func(), err error) {
	if s.project, err = openProject(s.Spec); err != nil {
		return nil, err
	}
	if s.state, err = openState(s.Spec); err == nil {
		err = checkPlaces(s.Spec)
	}
	if err != nil {
		s.project.Close()
		return nil, err
	}
	return func() { s.project.Close() }, nil
}

// checkPlaces refuses a spec with a directory elsewhere than in the workspace. polisd has read some of their paths from
// files of the workspace.
func checkPlaces(sp wire.Spec) error {
	paths := []string{sp.Mountpoint, sp.Upper, sp.Lower, sp.Work, sp.Setup, sp.BareRepo, sp.PrivateGit, sp.Filtered, sp.Tracked, sp.HomeDir, sp.Scratch, sp.LogDir}
	if sp.Git || sp.Check != nil {
		paths = append(paths, sp.Tree)
	}
	if sp.Shared != nil {
		paths = append(paths, sp.Shared.Dir, sp.Shared.Store)
	}
	if sp.Check != nil {
		paths = append(paths, sp.Check.Log)
	}
	for _, path := range paths {
		if rel, ok := strings.CutPrefix(path, stateOf(sp)+"/"); path != "" && (!ok || !filepath.IsLocal(rel) || filepath.Clean(path) != path) {
			return fmt.Errorf("the spec of %s has the directory %q, which is not in %s", sp.Agent, path, stateOf(sp))
		}
	}
	return nil
}

// openProject opens the directory of the project, if it is the recorded one.
func openProject(sp wire.Spec) (*os.File, error) {
	if sp.Project.Path == "" {
		return nil, api.Errorf(api.CodeShimUnavailable, "the spec does not say which directory the project of %s is: polisd is older than this polis-shim", sp.Agent).
			WithHint("install polisd and polis-shim of one version")
	}
	dir, err := sp.Project.Open()
	if errors.Is(err, pinned.ErrChanged) {
		return nil, api.Errorf(api.CodeProjectChanged, "the project of %s: %w", sp.Agent, err).With("path", sp.Project.Path).
			WithHint("put the project back; if it was moved or cloned again on purpose: polisctl workspace move %s PATH", sp.Workspace)
	}
	return dir, err
}

// at returns the path by which this process reaches one in the directory of the workspace. Only root may be able to
// exchange what is on the way: see openBelow for the directories that are not root's. Other paths are returned as
// they are.
func (s *Shim) at(path string) string { return at(s.state, s.Spec, path) }

// named puts the paths that people know into an error of the start.
func (s *Shim) named(err error) error {
	if s.state == nil {
		return err
	}
	return walk.Named(err, s.state, stateOf(s.Spec))
}

// logDir is where the shim reaches the agent's logs.
func (s *Shim) logDir() string { return s.at(s.Spec.LogDir) }

func at(state *os.File, sp wire.Spec, path string) string {
	rel, ok := strings.CutPrefix(path, stateOf(sp)+"/")
	if !ok || state == nil {
		return path
	}
	return walk.Path(state, rel)
}

// inState returns a path in the directory of the workspace relative to it.
func (s *Shim) inState(path string) (string, bool) {
	rel, ok := strings.CutPrefix(path, stateOf(s.Spec)+"/")
	return rel, ok && s.state != nil
}

// openBelow opens, with O_PATH, a path in the directory of the workspace on which its owner can exchange what is in
// the owner's own directories.
func (s *Shim) openBelow(path string) (*os.File, error) {
	rel, ok := s.inState(path)
	if !ok {
		return nil, fmt.Errorf("%s is not in the workspace of %s", path, s.Spec.Agent)
	}
	return walk.Below(s.state, rel, uint32(s.Spec.UID))
}

// openAt opens a file below an open directory. It follows no link.
func openAt(dir *os.File, name string, flags int) (int, error) {
	return unix.Openat2(int(dir.Fd()), name, &unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
}

// gitFile opens a file of the shared repository or of the agent's own part of it.
func (s *Shim) gitFile(path string, flags int) (int, error) {
	rel, ok := s.inState(path)
	if !ok {
		return -1, &os.PathError{Op: "open", Path: path, Err: unix.ENOENT}
	}
	return walk.File(s.state, rel, uint32(s.Spec.UID), flags)
}
