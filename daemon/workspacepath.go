package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"polis/daemon/api"
	"polis/daemon/layout"
	"polis/daemon/store"
)

// fallbackUID runs the agents of a project that belongs to root on a machine
// without the configured user; it is outside what distributions hand out.
const fallbackUID = 64923

var workspaceName = regexp.MustCompile(`[^a-z0-9-]+`)

// forgetAttempt takes away the empty frame of a workspace that could not be
// made. What is not empty is somebody's work, and stays.
func forgetAttempt(root layout.Workspace) {
	link := root.Project()
	if fi, err := os.Lstat(link); err == nil && fi.Mode()&os.ModeSymlink != 0 {
		_ = os.Remove(link) //nolint:errcheck // only tidying up
	}
	entries, _ := os.ReadDir(root.Dir()) //nolint:errcheck // as above
	for _, e := range entries {
		if e.IsDir() {
			_ = os.Remove(filepath.Join(root.Dir(), e.Name())) //nolint:errcheck // not empty
		}
	}
	_ = os.Remove(root.Dir())   //nolint:errcheck // as above
	_ = os.Remove(string(root)) //nolint:errcheck // as above
}

// place decides the workspace's name and directory.
func (d *Daemon) place(req api.UpRequest, reg store.Registry) (string, layout.Workspace, error) {
	bad := func(field, value, rule string) (string, layout.Workspace, error) {
		return "", "", api.Errorf(api.CodeBadRequest, "%s = %q: %s", field, api.Shorten(value, 200), rule)
	}
	for field, v := range map[string]string{"repo": req.Repo, "path": req.Path, "target": req.Target} {
		if len(v) > 4096 || strings.ContainsRune(v, 0) {
			return bad(field, v, "must have at most 4096 bytes and no NUL")
		}
	}
	if req.Repo != "" && !isURL(req.Repo) && !filepath.IsAbs(req.Repo) {
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
			if have, err := filepath.EvalSymlinks(layout.Workspace(p).Project()); err == nil && have == real {
				return n, layout.Workspace(p), nil
			}
		}
	}
	n := unique(base(req.Repo), reg)
	return n, layout.Workspace(filepath.Join(d.Config.WorkspacesDir, n)), nil
}

func isURL(s string) bool {
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

// owner is who agents of a workspace run as: the owner of the project, or,
// if that is root, the configured user.
func (d *Daemon) owner(root layout.Workspace, local string) (uid, gid int, err error) {
	if fi, err := os.Stat(root.Bare()); err == nil {
		if st, ok := fi.Sys().(*syscall.Stat_t); ok && st.Uid != 0 {
			return int(st.Uid), int(st.Gid), nil
		}
	}
	if local == "" {
		local = root.Project()
	}
	fi, err := os.Stat(local)
	if err == nil {
		if st, ok := fi.Sys().(*syscall.Stat_t); ok && st.Uid != 0 {
			return int(st.Uid), int(st.Gid), nil
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return 0, 0, api.Errorf(api.CodeWorkspaceInvalid, "look at %s: %w", local, err)
	}
	u, err := user.Lookup(d.live().Sandbox.User)
	if err != nil {
		d.warn("there is no user " + d.live().Sandbox.User + "; agents of projects that belong to root run as uid " + fmt.Sprint(fallbackUID))
		return fallbackUID, fallbackUID, nil //nolint:nilerr // said as a warning
	}
	if uid, gid = atoi(u.Uid), atoi(u.Gid); uid <= 0 || gid < 0 {
		return 0, 0, api.Errorf(api.CodeInvalidConfig, "sandbox.user = %q: must not be root", u.Username)
	}
	return uid, gid, nil
}
