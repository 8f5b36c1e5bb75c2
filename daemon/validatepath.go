package daemon

import (
	"os"
	"path/filepath"
	"strings"

	"polis/daemon/api"
	"polis/daemon/layout"
	"polis/daemon/store"
)

// ground refuses a project or a workspace in polis' own directories: agents
// could change there what they must not, or it would go with what it lies in.
// Links are followed as far as there is something.
func (d *Daemon) ground(root layout.Workspace, local string, reg store.Registry) error {
	own := map[string]string{d.Config.RunDir: "polisd's run_dir"}
	for n, p := range reg.Workspaces {
		own[layout.Workspace(p).Dir()] = "the .polis of workspace " + n
	}
	for what, path := range map[string]string{"project": local, "workspace": string(root)} {
		if path == "" {
			continue
		}
		for dir, whose := range own {
			if below(realPath(path), realPath(dir)) {
				return api.Errorf(api.CodeWorkspaceInvalid, "the %s %s would lie in %s", what, path, whose).
					WithHint("give a directory of your own")
			}
		}
	}
	return nil
}

// realPath is a path without links, as far as it exists.
func realPath(path string) string {
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

func below(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+string(os.PathSeparator))
}
