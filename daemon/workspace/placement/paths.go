package placement

import (
	"path/filepath"

	"polis/daemon/api"
	"polis/daemon/store"
	"polis/daemon/store/layout"
)

// CheckPaths refuses a project (local, may be empty) or a workspace in polis' own
// directories, WORKSPACE_INVALID: agents could change polis' files there, or it would
// be removed with the directory it is in. Links are followed as far as they lead
// somewhere.
func CheckPaths(root layout.Workspace, local, runDir string, reg store.Registry) error {
	own := map[string]string{runDir: "polisd's run_dir"}
	for n, p := range reg.Workspaces {
		own[layout.Workspace(p).Dir()] = "the .polis of workspace " + n
	}
	for what, path := range map[string]string{"project": local, "workspace": string(root)} {
		if path == "" {
			continue
		}
		for dir, whose := range own {
			if layout.Below(RealPath(path), RealPath(dir)) {
				return api.Errorf(api.CodeWorkspaceInvalid, "the %s %s would lie in %s", what, path, whose).
					WithHint("give a directory of your own")
			}
		}
	}
	return nil
}

// RealPath returns a path without links, as far as it exists.
func RealPath(path string) string {
	rest := ""
	for p := filepath.Clean(path); ; p = filepath.Dir(p) {
		if r, err := filepath.EvalSymlinks(p); err == nil {
			return filepath.Join(r, rest)
		}
		if p == "/" || p == "." {
			return path
		}
		rest = filepath.Join(filepath.Base(p), rest)
	}
}

// maxPath is the longest path, in bytes (PATH_MAX in limits.h).
const maxPath = 4096

// Apart reports whether path is absolute and in its shortest form, and neither below nor above one of dirs,
// also where these are links. The root directory is above everything.
func Apart(path string, dirs []string) bool {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || path == "/" || len(path) > maxPath {
		return false
	}
	for _, dir := range dirs {
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			real = dir
		}
		for _, d := range []string{dir, real} {
			if layout.Below(path, d) || layout.Below(d, path) {
				return false
			}
		}
	}
	return true
}
