package placement

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"polis/daemon/api"
	"polis/daemon/store"
	"polis/daemon/store/layout"
)

var workspaceName = regexp.MustCompile(`[^a-z0-9-]+`)

// Undo removes the empty directories of a workspace that could not be made. A
// directory that is not empty stays: it may hold work.
func Undo(root layout.Workspace) {
	link := root.Project()
	if fi, err := os.Lstat(link); err == nil && fi.Mode()&os.ModeSymlink != 0 {
		_ = os.Remove(link) //nolint:errcheck // only tidying up
	}
	_ = os.Remove(root.ProjectRecord())  //nolint:errcheck // of a workspace that does not exist
	entries, _ := os.ReadDir(root.Dir()) //nolint:errcheck // as above
	for _, e := range entries {
		if e.IsDir() {
			_ = os.Remove(filepath.Join(root.Dir(), e.Name())) //nolint:errcheck // not empty
		}
	}
	_ = os.Remove(root.Dir())   //nolint:errcheck // as above
	_ = os.Remove(string(root)) //nolint:errcheck // as above
}

// Choose returns the name and the directory of the workspace that a request is for:
// one of reg for the same repository or path, else a new one below dir. BAD_REQUEST
// names the field that is wrong.
func Choose(req api.UpRequest, reg store.Registry, dir string) (string, layout.Workspace, error) {
	bad := func(field, value, rule string) (string, layout.Workspace, error) {
		return "", "", api.Errorf(api.CodeBadRequest, "%s = %q: %s", field, api.Shorten(value, 200), rule)
	}
	for field, v := range map[string]string{"repo": req.Repo, "path": req.Path, "target": req.Target} {
		if len(v) > 4096 || strings.ContainsRune(v, 0) {
			return bad(field, v, "must have at most 4096 bytes and no NUL")
		}
	}
	if req.Repo != "" && !IsURL(req.Repo) && !filepath.IsAbs(req.Repo) {
		return bad("repo", req.Repo, "must be a URL or an absolute path")
	}
	if req.Path != "" {
		if !filepath.IsAbs(req.Path) || filepath.Clean(req.Path) != req.Path || req.Path == "/" {
			return bad("path", req.Path, "must be a clean absolute path")
		}
		for n, p := range reg.Workspaces {
			if p == req.Path {
				return n, layout.Workspace(p), nil
			}
		}
		if req.Repo == "" {
			return bad("repo", "", "must be given for a new workspace")
		}
		return unique(base(req.Path), reg), layout.Workspace(req.Path), nil
	}
	if req.Repo == "" {
		return bad("repo", "", "must be a directory or a URL")
	}
	// The same repository again is the same workspace.
	if real, err := filepath.EvalSymlinks(req.Repo); err == nil {
		for n, p := range reg.Workspaces {
			// The link has the path without links; where that leads now, its owner decides.
			have := layout.Workspace(p).Project()
			if to, err := os.Readlink(have); err == nil {
				have = to
			}
			if have == real {
				return n, layout.Workspace(p), nil
			}
		}
	}
	n := unique(base(req.Repo), reg)
	return n, layout.Workspace(filepath.Join(dir, n)), nil
}

// IsURL reports whether git takes a repository for a URL or a host and path.
func IsURL(s string) bool {
	return strings.Contains(s, "://") || (!strings.HasPrefix(s, "/") && strings.Contains(s, ":"))
}

func base(p string) string {
	n := strings.TrimSuffix(filepath.Base(strings.TrimRight(p, "/")), ".git")
	n = strings.Trim(workspaceName.ReplaceAllString(strings.ToLower(n), "-"), "-")
	if n == "" {
		n = "workspace"
	}
	return n[:min(len(n), 40)]
}

func unique(n string, reg store.Registry) string {
	for i, try := 2, n; ; i++ {
		if _, ok := reg.Workspaces[try]; !ok {
			return try
		}
		try = fmt.Sprintf("%s-%d", n, i)
	}
}
