package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"polis/daemon/api/wire"
	"polis/daemon/git/filtered"
	"polis/daemon/git/githooks"
	"polis/fusefs/fdtree"
	"polis/fusefs/policy"
	"polis/internal/asuser"
)

// openGitHooks gives the agent the git hooks of the project, again at every start: files of root's in /run/polis.
func (s *Shim) openGitHooks() error {
	dir := filepath.Join(s.insideDir(), filepath.Base(wire.HooksPath))
	if err := fdtree.RemoveAll(context.Background(), dir); err != nil {
		return err
	}
	h := s.Spec.Hooks
	if h.Shown() == "" {
		return nil
	}
	files, err := s.readGitHooks()
	if err != nil {
		return fmt.Errorf("read the git hooks of the project (git.hooks): %w", err)
	}
	return s.writeGitHooks(filepath.Join(s.insideDir(), strings.TrimPrefix(h.Shown(), wire.InsideDir)), files)
}

func (s *Shim) readGitHooks() (files []githooks.File, err error) {
	sp := s.Spec
	_, rules, err := filtered.Reading(s.rules(sp.Settings), sp.TempNames)
	if err != nil {
		return nil, err
	}
	git := &projectGit{project: s.project, uid: sp.Project.UID, gid: sp.Project.GID}
	var own, common *os.File
	err = asuser.Do(sp.Project.UID, sp.Project.GID, func() (err error) {
		own, common, err = git.dirs()
		return err
	})
	if err != nil {
		return nil, err
	}
	defer own.Close()
	defer common.Close()
	return githooks.Source{Tree: s.project, Git: common, Path: sp.Project.Path, UID: sp.Project.UID, GID: sp.Project.GID,
		Readable: func(path string) bool { return rules.DecideThrough(path, false).Read == policy.Allow }}.Files(sp.Hooks)
}

// writeGitHooks writes the files. A directory that a manager of hooks made in the one of its scripts (husky) gets
// links to those of the agent's own worktree beside it.
func (s *Shim) writeGitHooks(dir string, files []githooks.File) error {
	for _, f := range files {
		path := filepath.Join(dir, f.Path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		mode := os.FileMode(0o444)
		if f.Exec {
			mode = 0o555
		}
		if err := errors.Join(os.WriteFile(path, f.Data, mode), os.Chmod(path, mode)); err != nil {
			return err
		}
	}
	return s.linkBeside(dir)
}

// linkBeside makes those links.
func (s *Shim) linkBeside(dir string) error {
	h := s.Spec.Hooks
	if h.Place != wire.HooksInTree || !strings.Contains(h.Dir, "/") {
		return nil
	}
	for _, name := range h.Names {
		if name == filepath.Base(h.Dir) {
			continue
		}
		scripts := filepath.Join(s.Spec.ProjectPath, filepath.Dir(h.Dir))
		if err := os.Symlink(filepath.Join(scripts, name), filepath.Join(filepath.Dir(dir), name)); err != nil {
			return err
		}
	}
	return nil
}

// hooksText is what the agent's model learns of the git hooks of the project.
func hooksText(h *wire.GitHooks) string {
	if h == nil {
		return ""
	}
	list := strings.Join(h.Names, ", ")
	if h.Runs() {
		return "The git hooks of the project (" + list + ") run when you use git here. Do not bypass them: mend what they refuse."
	}
	return "The project has git hooks (" + list + "), which do not run for you. Run what they check yourself before you commit."
}
