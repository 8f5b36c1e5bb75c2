package main

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"strings"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

// locate turns what the user typed into a path of a repository, and finds the
// workspace if the path or the current directory says which.
func locate(ctx context.Context, c *client.Client, req *api.LockRequest, typed string) error {
	workspaces, err := c.Workspaces(ctx)
	if err != nil {
		return err
	}
	cwd, err := os.Getwd()
	if err != nil {
		cwd = "" // a directory that is gone is in no project
	}
	name, repoPath, err := repositoryPath(workspaces, req.Workspace, cwd, typed)
	if err != nil {
		return err
	}
	req.Workspace, req.Path = name, repoPath
	return nil
}

// repositoryPath resolves typed against the projects of workspaces. only, if set, names the one
// to consider. It reads the file system only to resolve the links of directories; the last
// component may be missing or a link.
func repositoryPath(workspaces []api.Workspace, only, cwd, typed string) (workspace, repoPath string, err error) {
	base := typed
	if !filepath.IsAbs(typed) {
		if cwd == "" {
			repoPath, err = relativePath(typed)
			return only, repoPath, err
		}
		base = filepath.Join(cwd, typed)
	}
	for _, abs := range []string{filepath.Clean(base), resolved(base)} { // the second reaches a project through a link
		best := -1
		for _, w := range workspaces {
			if only != "" && w.Name != only {
				continue
			}
			for _, top := range tops(w.Project) {
				rel, ok := below(top, abs)
				if ok && len(top) > best {
					best, workspace, repoPath = len(top), w.Name, rel
				}
			}
		}
		if best >= 0 {
			if repoPath == "." {
				return "", "", usagef("PATH %q is the whole repository: name a file or a directory in it", clean(typed))
			}
			return workspace, repoPath, nil
		}
	}
	if filepath.IsAbs(typed) {
		return "", "", api.Errorf(api.CodePathTraversal, "PATH %q is in no workspace", clean(typed)).
			WithHint("give a path of the repository; polisctl status lists the workspaces")
	}
	if inProject(workspaces, only, cwd) {
		return "", "", api.Errorf(api.CodePathTraversal, "PATH %q leaves the repository", clean(typed))
	}
	repoPath, err = relativePath(typed)
	return only, repoPath, err
}

// relativePath checks a path relative to the top of a repository.
func relativePath(typed string) (string, error) {
	p := path.Clean(typed)
	if p == ".." || strings.HasPrefix(p, "../") {
		return "", api.Errorf(api.CodePathTraversal, "PATH %q leaves the repository", clean(typed))
	}
	if p == "." {
		return "", usagef("PATH %q is the whole repository: name a file or a directory in it", clean(typed))
	}
	return p, nil
}

// here returns the name of the workspace the current directory is in, if there
// are several to choose from; the daemon knows what else to take.
func here(ctx context.Context, c *client.Client) (string, error) {
	workspaces, err := c.Workspaces(ctx)
	if err != nil || len(workspaces) < 2 {
		return "", err
	}
	cwd, err := os.Getwd()
	if err != nil {
		return "", nil //nolint:nilerr // a directory that is gone is in no project
	}
	for _, w := range workspaces {
		if inProject([]api.Workspace{w}, "", cwd) {
			return w.Name, nil
		}
	}
	return "", nil
}

func inProject(workspaces []api.Workspace, only, dir string) bool {
	for _, w := range workspaces {
		if only != "" && w.Name != only {
			continue
		}
		for _, d := range []string{dir, resolved(dir)} {
			for _, top := range tops(w.Project) {
				if _, ok := below(top, d); ok {
					return true
				}
			}
		}
	}
	return false
}

// below returns the path of abs relative to top, if it is in it.
func below(top, abs string) (string, bool) {
	rel, err := filepath.Rel(top, abs)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return "", false
	}
	return rel, true
}

// resolved is p with the links of its directory resolved, as far as it exists.
func resolved(p string) string {
	p = filepath.Clean(p)
	dir := filepath.Dir(p)
	if dir == p {
		return p
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return filepath.Join(real, filepath.Base(p))
	}
	return filepath.Join(resolved(dir), filepath.Base(p))
}

// tops are the names of a project's top directory: as polisd reports it and,
// since a project may be a link, as it really is.
func tops(project string) []string {
	if project == "" {
		return nil
	}
	real, err := filepath.EvalSymlinks(project)
	if err != nil || real == project {
		return []string{project}
	}
	return []string{project, real}
}
