package worktree

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/host/private"
	"polis/fusefs/fdtree"
	"polis/internal/pinned"
)

// Spec describes the workspace to make.
type Spec struct {
	// Workspace is the directory that will hold project and .polis, absolute.
	Workspace string
	// Repo is a directory (absolute) or a URL. It may be empty if the workspace has a project.
	Repo string
	// Target is the branch merges go to; the project's current branch if empty.
	Target string
	// UID and GID will own the shared repository, the worktrees and a cloned project.
	UID, GID uint32
	// Plain treats a project as a directory without branches, whatever its .git: an agent may
	// have made it, so git does not even read it.
	Plain bool
	// Private closes the directory of the workspace itself to everybody but root and UID, too: polis chose its place.
	Private bool
	// Clone makes a clone of a bare repository that has worktrees. Such a repository is refused otherwise.
	Clone bool
	// Owner, if not nil, is the user to whom the project must belong if it is not recorded yet.
	Owner *uint32
	// Changed is as in Config.
	Changed func(error)
	Git     string // the git program; "git" if empty
	Log     *slog.Logger
	// Progress is called at each step that can take long; may be nil.
	Progress func(string)
}

// Info describes a workspace after Up.
type Info struct {
	Git          bool   // false: a plain directory, without branches
	Target       string // the branch merges go to; empty without git
	ProjectPath  string // the user's checkout, without symlinks
	ProjectOwner Owner
	Record       pinned.Record
	BecameGit    bool // it has a .git, but Spec.Plain requires a plain directory
	// ByGroup: the file system has no access control lists, so that every member of GID can enter .polis.
	ByGroup bool
	// ClonedFrom is the bare repository that the project was cloned from now; else "".
	ClonedFrom string
	// Changed is false if everything was there already.
	Changed bool
}

// Up makes the git side of a workspace, or finds it made. It changes nothing that exists: the
// next Up finishes an interrupted one, a second Up does nothing.
func Up(ctx context.Context, spec Spec) (Info, error) {
	if !filepath.IsAbs(spec.Workspace) || strings.ContainsAny(spec.Workspace, "\x00\n\r") {
		return Info{}, api.Errorf(api.CodeWorkspaceInvalid, "workspace %q is not an absolute path", api.Shorten(spec.Workspace, 200))
	}
	if spec.Target != "" {
		if err := git.CheckBranch(spec.Target); err != nil {
			return Info{}, api.Errorf(api.CodeWorkspaceInvalid, "target: %w", err)
		}
	}
	u := &upper{spec: spec}
	if u.spec.Progress == nil {
		u.spec.Progress = func(string) {}
	}
	u.spec.Workspace = filepath.Clean(spec.Workspace)
	u.w = Open(Config{Workspace: u.spec.Workspace, UID: spec.UID, GID: spec.GID, Git: spec.Git, Log: spec.Log, Changed: spec.Changed})
	return u.run(ctx)
}

type upper struct {
	spec    Spec
	w       *Workspace
	changed bool
	byGroup bool
	cloned  string // the bare repository that was cloned
}

func (u *upper) run(ctx context.Context) (Info, error) {
	from, err := u.source()
	if err != nil {
		return Info{}, err
	}
	if err := u.directories(); err != nil {
		return Info{}, err
	}
	if err := u.project(ctx, from); err != nil {
		return Info{}, err
	}
	r, err := u.pin(from)
	if err != nil {
		return Info{}, err
	}
	dir, err := r.Open()
	if err != nil {
		return Info{}, u.w.changed(r, err)
	}
	defer dir.Close()
	path, own := r.Path, Owner{UID: r.UID, GID: r.GID}
	info := Info{ProjectPath: path, ProjectOwner: own, Record: r, ByGroup: u.byGroup}
	if u.changed {
		info.ClonedFrom = u.cloned
	}
	if u.spec.Plain {
		info.BecameGit, info.Changed = hasGit(dir), u.changed
		return info, nil
	}
	project, err := u.w.inspect(ctx, r, dir)
	if err != nil {
		return Info{}, err
	}
	if project != nil && r.Git == nil {
		if info.Record, err = u.adopt(r); err != nil {
			return Info{}, err
		}
	}
	if project == nil {
		if _, err := os.Lstat(u.w.bareDir()); err == nil {
			return Info{}, api.Errorf(api.CodeWorkspaceInvalid, "%s was a git repository and is none any more", path).
				WithHint("the agents' work is in %s; bring the project's .git back, or start a new workspace", u.w.bareDir())
		}
		if spec := u.spec; spec.Target != "" {
			return Info{}, api.Errorf(api.CodeWorkspaceInvalid, "%s is not a git repository: it has no branch %s", path, spec.Target)
		}
		if own.UID == 0 && systemDir(path) {
			return Info{}, api.Errorf(api.CodeWorkspaceInvalid, "%s belongs to the system, and agents would change it", path).
				WithHint("give the directory of a project")
		}
		info.Changed = u.changed
		return info, nil
	}
	info.Git = true
	if err := u.shared(ctx, project); err != nil {
		return Info{}, err
	}
	if err := u.internal(ctx); err != nil {
		return Info{}, err
	}
	if err := errors.Join(u.w.moveTrash(ctx), u.w.moveRemotes(ctx)); err != nil {
		u.w.cfg.Log.Error("leftover of an earlier version not moved out of the shared repository, where agents see it; the next start tries again", "op", "trash", "path", u.w.bareDir(), "err", err)
	}
	info.Target, err = u.w.Target(ctx)
	info.Changed = u.changed
	return info, err
}

// source validates the request before anything is made.
func (u *upper) source() (source, error) {
	if u.spec.Repo == "" {
		if _, err := os.Lstat(u.w.linkPath()); err != nil {
			return source{}, api.Errorf(api.CodeWorkspaceNotFound, "%s has no project", u.spec.Workspace).
				WithHint("polisctl up --repo PATH|URL %s", u.spec.Workspace)
		}
		return source{}, nil
	}
	from, err := parseSource(u.spec.Repo)
	if err != nil || from.path == "" {
		return from, err
	}
	w := realParent(u.spec.Workspace)
	if within(from.path, w) {
		return source{}, api.Errorf(api.CodeWorkspaceInvalid, "the workspace %s would lie inside the repository %s", u.spec.Workspace, from.path).
			WithHint("polis writes nothing into a working tree: choose a workspace directory outside of it")
	}
	if within(filepath.Join(w, ".polis"), from.path) {
		return source{}, api.Errorf(api.CodeWorkspaceInvalid, "%s belongs to a workspace of polis", from.path)
	}
	return from, nil
}

// within reports whether path is dir or below it.
func within(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// realParent resolves the symlinks of as much of path as exists.
func realParent(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil || path == "/" {
		return real
	}
	return filepath.Join(realParent(filepath.Dir(path)), filepath.Base(path))
}

// directories makes the workspace's own directories and checks that the owner
// can enter them.
func (u *upper) directories() error {
	for _, dir := range []string{u.w.polis(), u.w.treesDir(), u.w.trashDir()} {
		if _, err := os.Stat(dir); err != nil {
			u.changed = true
		}
	}
	fail := func(err error) error {
		e := api.Errorf(api.CodeWorkspaceInvalid, "make the workspace: %w", err)
		if errors.Is(err, private.ErrOwner) {
			e = e.WithHint("find out whose workspace the path leads to; if the project has another owner now: setfacl --remove-all %s", u.w.polis())
		}
		return e
	}
	if err := os.MkdirAll(u.spec.Workspace, 0o755); err != nil {
		return fail(err)
	}
	if u.spec.Private {
		// A directory of a user's is one that the user chose.
		if _, err := private.For(u.spec.Workspace, u.spec.UID, u.spec.GID, nil); err != nil && !errors.Is(err, private.ErrOwner) {
			return fail(err)
		}
	}
	var err error
	if u.byGroup, err = private.For(u.w.polis(), u.spec.UID, u.spec.GID, u.isOwners); err != nil {
		return fail(err)
	}
	// Running git in a worktree, or opening it in an editor, can run what its agent wrote there.
	if err := private.Dir(u.w.treesDir()); err != nil {
		return fail(err)
	}
	if err := private.Within(u.w.trashDir()); err != nil {
		return fail(err)
	}
	return reachable(u.w.polis(), u.spec.UID, u.spec.GID)
}

// isOwners refuses a .polis whose shared repository is another user's: the path of a workspace can lead elsewhere by now.
func (u *upper) isOwners(polis *os.File) error {
	var st unix.Stat_t
	err := unix.Fstatat(int(polis.Fd()), filepath.Base(u.w.bareDir()), &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) || err == nil && (st.Uid == u.spec.UID || st.Uid == uint32(os.Geteuid())) {
		return nil
	}
	return errors.Join(err, fmt.Errorf("the shared repository in %s is uid %d's, not uid %d's", polis.Name(), st.Uid, u.spec.UID))
}

// reachable reports the first directory on the way to path that uid may not enter.
func reachable(path string, uid, gid uint32) error {
	if uid == 0 {
		return nil
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return api.Errorf(api.CodeWorkspaceInvalid, "inspect the workspace: %w", err)
	}
	dir := "/"
	for _, part := range strings.Split(strings.Trim(real, "/"), "/") {
		dir = filepath.Join(dir, part)
		fi, err := os.Stat(dir)
		if err != nil {
			return api.Errorf(api.CodeWorkspaceInvalid, "inspect the workspace: %w", err)
		}
		own, err := ownerOf(dir)
		if err != nil {
			return err
		}
		enters, err := private.Enters(dir, uid, gid)
		if err != nil {
			return api.Errorf(api.CodeWorkspaceInvalid, "inspect the workspace: %w", err)
		}
		if !enters {
			return api.Errorf(api.CodeWorkspaceInvalid, "uid %d, the owner of the workspace, cannot enter %s (%s, owner %d)", uid, dir, fi.Mode(), own.UID).
				WithHint("choose a workspace directory elsewhere (/srv/workspaces/NAME), or chmod o+x %s", dir)
		}
	}
	return nil
}

// scratch makes a directory of the owner's inside .polis.
func (u *upper) scratch(prefix string) (string, error) {
	dir, err := os.MkdirTemp(u.w.polis(), prefix)
	if err != nil {
		return "", api.Errorf(api.CodeWorkspaceInvalid, "make the workspace: %w", err)
	}
	if err := give(dir, u.spec.UID, u.spec.GID); err != nil {
		return "", errors.Join(err, fdtree.Cleanup(dir))
	}
	return dir, nil
}

// give makes uid the owner of a directory or file just made.
func give(path string, uid, gid uint32) error {
	if os.Geteuid() != 0 {
		return nil
	}
	if err := os.Lchown(path, int(uid), int(gid)); err != nil {
		return fmt.Errorf("give %s to uid %d: %w", path, uid, err)
	}
	return nil
}
