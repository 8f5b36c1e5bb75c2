package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/fusefs/fdtree"
)

// shared makes the bare repository with all branches and tags of the project. It is built beside
// its final path and renamed when complete.
func (u *upper) shared(ctx context.Context, p *Project) error {
	if _, err := os.Lstat(u.w.bareDir()); err == nil {
		return u.retarget(ctx)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return api.Errorf(api.CodeWorkspaceInvalid, "inspect the shared repository: %w", err)
	}
	target, refs, err := u.choose(ctx, p)
	if err != nil {
		return err
	}
	if err := u.sweep(); err != nil {
		return err
	}
	u.spec.Progress(fmt.Sprintf("copy %s of %s", api.Count(len(refs), "ref"), p.Path))
	tmp, err := u.scratch("bare-")
	if err != nil {
		return err
	}
	defer fdtree.Cleanup(tmp) //nolint:errcheck // a temporary directory of ours
	if err := u.fill(ctx, p, filepath.Join(tmp, "repo.git"), target, refs); err != nil {
		return api.Errorf(api.CodeWorkspaceInvalid, "make the shared repository: %w", err)
	}
	if err := u.place(tmp, "repo.git", u.w.bareDir()); err != nil {
		return api.Errorf(api.CodeWorkspaceInvalid, "make the shared repository: %w", err)
	}
	u.changed = true
	delete(refs, git.Branch(target))
	maps.DeleteFunc(refs, func(name, _ string) bool { return strings.HasPrefix(name, agentsBranches) })
	if err := u.w.writeBrought(refs); err != nil { // without it, BringRefs only moves refs forward
		u.w.cfg.Log.Warn("refs of the project not recorded", "op", "refs", "err", err)
	}
	return nil
}

// choose finds the target branch and the refs to copy, and rejects what cannot be worked on.
func (u *upper) choose(ctx context.Context, p *Project) (string, map[string]string, error) {
	if p.Bare {
		return "", nil, api.Errorf(api.CodeWorkspaceInvalid, "%s is a bare repository, not a checkout", p.Path).
			WithHint("polisctl up --repo %s NEW-WORKSPACE clones it", p.Path)
	}
	if err := p.partial(ctx); err != nil {
		return "", nil, err
	}
	if p.Shallow {
		return "", nil, api.Errorf(api.CodeWorkspaceInvalid, "%s is a shallow clone: its history is cut off", p.Path).
			WithHint("git -C %s fetch --unshallow makes it complete", p.Path)
	}
	refs, err := p.Refs(ctx, "refs/heads", "refs/tags")
	if err != nil {
		return "", nil, api.Errorf(api.CodeWorkspaceInvalid, "list the branches of %s: %w", p.Path, err)
	}
	target := u.spec.Target
	if target == "" {
		if target, err = p.Head(ctx); err != nil {
			return "", nil, api.Errorf(api.CodeWorkspaceInvalid, "find the branch %s is on: %w", p.Path, err)
		}
	}
	if target == "" {
		return "", nil, api.Errorf(api.CodeWorkspaceInvalid, "%s is on no branch (detached HEAD), so there is none to merge to", p.Path).
			WithHint("check one out, or name it: polisctl up --target BRANCH")
	}
	if err := git.CheckBranch(target); err != nil {
		return "", nil, api.Errorf(api.CodeWorkspaceInvalid, "target: %w", err)
	}
	if refs[git.Branch(target)] == "" {
		if len(refs) == 0 || u.spec.Target == "" {
			return "", nil, api.Errorf(api.CodeWorkspaceInvalid, "branch %s of %s has no commit yet: there is nothing for agents to start from", target, p.Path).
				WithHint("make a first commit: git -C %s commit --allow-empty -m start", p.Path)
		}
		return "", nil, api.Errorf(api.CodeWorkspaceInvalid, "%s has no branch %s", p.Path, target).
			WithHint("it has: %s", strings.Join(some(refs, 8), ", "))
	}
	return target, refs, nil
}

// writeHead makes HEAD of the shared repository name a branch.
func (u *upper) writeHead(ref string) error {
	bare, err := os.OpenRoot(u.w.bareDir())
	if err != nil {
		return api.Errorf(api.CodeRepoCorrupt, "write the target branch: %w", err)
	}
	defer bare.Close()
	if err = bare.Remove("HEAD.new"); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = u.w.createFile(bare, "HEAD.new", "ref: "+ref+"\n")
	}
	if err == nil {
		err = bare.Rename("HEAD.new", "HEAD")
	}
	if err != nil {
		return api.Errorf(api.CodeRepoCorrupt, "write the target branch: %w", err)
	}
	return nil
}

// some names a few branches.
func some(refs map[string]string, n int) []string {
	var names []string
	for ref := range refs {
		if name, ok := strings.CutPrefix(ref, "refs/heads/"); ok {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	if len(names) > n {
		names = append(names[:n], fmt.Sprintf("and %d more (git branch lists all)", len(names)-n))
	}
	return names
}

// fill makes the repository at dir.
func (u *upper) fill(ctx context.Context, p *Project, dir, target string, refs map[string]string) error {
	run := u.w.runner(u.spec.UID, u.spec.GID)
	_, err := run.Run(ctx, git.Cmd{
		Args: []string{"init", "--quiet", "--bare", "--template=", "--object-format=" + p.Format, "--initial-branch=" + target, "--", dir},
		Dir:  filepath.Dir(dir), Write: []string{filepath.Dir(dir)},
	})
	if err != nil {
		return err
	}
	root, err := openScratch(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := ownConfig(root, p.Format); err != nil {
		return err
	}
	for _, name := range []string{"info", parts} {
		if err := root.Mkdir(name, 0o755); err != nil {
			return err
		}
		if err := u.w.giveDir(root, name); err != nil {
			return err
		}
	}
	bare := git.Repo{Runner: run, Dir: dir}
	want := make([]string, 0, len(refs))
	for _, oid := range refs {
		want = append(want, oid)
	}
	if err := git.Copy(ctx, p.Repo, bare, want); err != nil {
		return err
	}
	return bare.UpdateAll(ctx, refs, "polis: up")
}

// sharedConfig is the configuration of the bare repository. Agents change copies of their own.
func sharedConfig(format string) string {
	version, extensions := "0", ""
	if format != "sha1" {
		version, extensions = "1", "[extensions]\n\tobjectFormat = "+format+"\n"
	}
	return `# Written by polis and owned by root: git takes commands from this file.
[core]
	repositoryformatversion = ` + version + `
	filemode = true
	bare = true
	logAllRefUpdates = true
[gc]
	auto = 0
	autoDetach = false
	worktreePruneExpire = never
[maintenance]
	auto = false
` + extensions
}

// retarget changes the merge target, if another one was requested.
func (u *upper) retarget(ctx context.Context) error {
	has, err := u.w.Target(ctx)
	if errors.Is(err, errNoTarget) && u.spec.Target != "" {
		// Git takes a directory whose HEAD is damaged for no repository: HEAD is repaired first.
		has, err = "a branch that is not known", u.writeHead(git.Branch(u.spec.Target))
	}
	if err != nil || u.spec.Target == "" || u.spec.Target == has {
		return err
	}
	bare := u.w.Bare()
	if _, err := bare.Ref(ctx, git.Branch(u.spec.Target)); err != nil {
		return api.Errorf(api.CodeWorkspaceInvalid, "the workspace has no branch %s to merge to: %w", u.spec.Target, err)
	}
	if _, err := bare.Run(ctx, "symbolic-ref", "HEAD", git.Branch(u.spec.Target)); err != nil {
		return api.Errorf(api.CodeWorkspaceInvalid, "change the target branch: %w", err)
	}
	u.spec.Progress(fmt.Sprintf("merges go to %s now, not to %s", u.spec.Target, has))
	u.changed = true
	return nil
}

// sweep removes what interrupted runs left. It contains no work.
func (u *upper) sweep() error {
	entries, err := os.ReadDir(u.w.polis())
	if err != nil {
		return api.Errorf(api.CodeWorkspaceInvalid, "inspect the workspace: %w", err)
	}
	for _, e := range entries {
		for _, prefix := range []string{"bare-", "clone-", "save-"} {
			rest, ok := strings.CutPrefix(e.Name(), prefix)
			if !ok || rest == "" || strings.Trim(rest, "0123456789") != "" {
				continue
			}
			if err := fdtree.Cleanup(filepath.Join(u.w.polis(), e.Name())); err != nil {
				return api.Errorf(api.CodeWorkspaceInvalid, "remove what an interrupted run left: %w", err)
			}
		}
	}
	return nil
}
