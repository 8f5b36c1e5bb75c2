package shim

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"polis/daemon/api/wire"
	"polis/fusefs"
	"polis/fusefs/fdtree"
	"polis/fusefs/ignore"
	"polis/fusefs/overlay"
	"polis/fusefs/shared"
	"polis/fusefs/view"
)

// openShared prepares what the view shows beside the agent's files: ignored files of the project's
// checkout, and the content of packages that other agents have installed. own decides what git
// ignores in the agent's tree. Roots gets the directory of the package store, if one exists.
func (s *Shim) openShared(cfg *fusefs.Config, own *ignore.Matcher) error {
	sp := s.Spec.Shared
	if sp == nil {
		return nil
	}
	dir := s.at(sp.Dir)
	for _, d := range []string{dir, filepath.Join(dir, "store")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
	}
	// Files that a killed shim was about to copy are unchanged at their source.
	stage := filepath.Join(dir, "stage")
	if err := errors.Join(fdtree.Cleanup(stage), os.Mkdir(stage, 0o700)); err != nil {
		return err
	}
	out := &overlay.Shared{Lower: -1}
	var err error
	if out.Stage, err = s.keepDir(stage); err != nil {
		return err
	}
	if sp.Store != "" {
		private, err := s.keepDir(filepath.Join(dir, "store"))
		if err != nil {
			return err
		}
		store, err := shared.OpenStore(s.at(sp.Store))
		if err != nil {
			return err
		}
		s.onClose("package store", func(context.Context) error { return store.Close() })
		cfg.Roots = append(cfg.Roots[:view.StoreRoot:view.StoreRoot], private)
		out.Store, out.StoreRoot = store, view.StoreRoot
	}
	if err := s.openLower(out, own); err != nil {
		return err
	}
	cfg.Shared = out
	return nil
}

// openLower makes the project's ignored files visible in the view.
func (s *Shim) openLower(out *overlay.Shared, own *ignore.Matcher) error {
	sp := s.Spec
	tree, err := readOnlyTree(s.project)
	if err != nil { // the kernel is older than 5.12
		s.Log.Warn("files of the project are not shared", "path", sp.ProjectPath, "err", err)
		return nil
	}
	s.onClose("project", func(context.Context) error { return tree.Close() })
	project := int(tree.Fd())
	git := &projectGit{project: tree, uid: sp.Project.UID, gid: sp.Project.GID}
	if err := git.check(); err != nil {
		s.Log.Warn("files of the project are not shared", "path", sp.ProjectPath, "err", err)
		return nil
	}
	theirs, err := ignore.New(ignore.Config{RootFD: project, IndexPath: indexFile, ExcludePath: excludeFile, Outside: git.open})
	if err != nil {
		return err
	}
	s.onClose("ignore rules of the project", func(context.Context) error { return theirs.Close() })
	paths, err := shared.NewPaths(shared.PathsConfig{Patterns: sp.Shared.Paths, Project: project,
		Ignored: []func(string, bool) bool{theirs.Exempt, own.Exempt, notMade(sp.Shared.Made)}})
	if err != nil {
		return err
	}
	s.onClose("shared paths", func(context.Context) error { return paths.Close() })
	gone, err := shared.OpenWhiteouts(filepath.Join(s.at(sp.Shared.Dir), "gone"))
	if err != nil {
		return err
	}
	s.onClose("removed names", func(context.Context) error { return gone.Close() })
	out.Lower, out.Paths, out.Whiteouts = project, paths, gone
	s.views.paths = paths
	return nil
}

// notMade reports of a path that it neither is nor contains nor is in one of made.
func notMade(made []string) func(path string, dir bool) bool {
	below := func(a, b string) bool { return a == b || strings.HasPrefix(a, b+"/") }
	return func(path string, _ bool) bool {
		return !slices.ContainsFunc(made, func(m string) bool {
			m = strings.TrimSuffix(m, "/")
			return below(path, m) || below(m, path)
		})
	}
}

// beginFollowing notes how the files that the owner shares are, before a program of the agent can watch them.
func (s *Shim) beginFollowing() {
	if s.views.paths != nil {
		s.views.tree.FollowShared()
	}
}

// sharedEvery is the interval of followShared while the agent runs. While it does not, each
// heartbeat calls it, for other readers of the view.
const sharedEvery = 3 * time.Second

// followShared makes names visible that the project's .worktreeinclude has added, if the agent has
// looked them up before: the kernel caches that they were missing. Programs that watch the tree see what the
// owner has changed in the files that it shows.
func (s *Shim) followShared() {
	v := s.views
	if v.paths != nil && v.paths.Changed() {
		v.tree.SharedChanged()
		s.forgetOverlay()
	}
	if v.paths != nil {
		v.tree.FollowShared()
	}
}

// keepDir opens a directory until the shim ends.
func (s *Shim) keepDir(path string) (int, error) {
	d, err := openDir(path)
	if err != nil {
		return -1, err
	}
	s.onClose("directory", func(context.Context) error { return d.Close() })
	return int(d.Fd()), nil
}

// leaseless reports whether a path takes no lease: git ignores it, or it is the lock file that the
// wrapper of npm makes pnpm write temporarily in a project without one.
func leaseless(sp wire.Spec, own *ignore.Matcher) func(path string, dir bool) bool {
	if storeName(sp) == "" {
		return own.Exempt
	}
	return func(path string, dir bool) bool {
		return own.Exempt(path, dir) || !dir && filepath.Base(path) == "pnpm-lock.yaml" && own.Untracked(path)
	}
}

// storeName returns the name of the package store in the view's root.
func storeName(sp wire.Spec) string {
	if sp.Shared == nil || sp.Shared.Store == "" {
		return ""
	}
	return shared.StoreName
}
