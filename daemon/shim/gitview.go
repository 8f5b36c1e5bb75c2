package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/git"
	"polis/daemon/git/excludes"
	"polis/daemon/git/filtered"
	"polis/daemon/host/private"
	"polis/daemon/store/layout"
	"polis/fusefs"
	"polis/fusefs/fdtree"
	"polis/fusefs/gitdir"
	"polis/fusefs/view"
)

// gitJournal and gitUsage are files beside the agent's own part of the git directory, where only
// root writes. They outlive the shim.
func gitJournal(sp wire.Spec) string { return sp.PrivateGit + ".locks" }
func gitUsage(sp wire.Spec) string   { return sp.PrivateGit + ".used" }

// publishedDir is the directory in which the agent's git finds the objects of the shared
// repository. On the host, a link of that name points to them.
func publishedDir(sp wire.Spec) string {
	return layout.PublishedObjects(filepath.Dir(sp.BareRepo))
}

// askedDir is where it finds the names of those that it may ask for. On the host the directory is empty.
func askedDir(sp wire.Spec) string { return layout.AskedObjects(filepath.Dir(sp.BareRepo)) }

// askedNames is the directory with these names; "" if the agent has none.
func (s *Shim) askedNames() string {
	sp := s.Spec
	if sp.Filtered == "" {
		return ""
	}
	dir := filepath.Join(sp.Filtered, filtered.AskedDir)
	if fi, err := os.Lstat(s.at(dir)); err != nil || !fi.IsDir() {
		return "" // made by an earlier version
	}
	return dir
}

// objectDirs are the directories in which the agent's git finds objects that are not its own.
func (s *Shim) objectDirs() ([]string, error) {
	sp := s.Spec
	dirs := []string{publishedDir(sp)}
	if s.askedNames() == "" {
		return dirs, nil
	}
	if err := private.Shared(s.at(askedDir(sp)), false); err != nil {
		return nil, err
	}
	return append(dirs, askedDir(sp)), nil
}

// ignore has the agent's git ignore what the owner's git ignores. An obstacle that the agent has left in its own git
// directory does not keep it from starting.
func (s *Shim) ignore() {
	sp := s.Spec
	patterns, err := excludes.Patterns(s.at(sp.BareRepo))
	if err == nil {
		_, err = excludes.Set(s.at(sp.PrivateGit), patterns, sp.UID, sp.GID)
	}
	if err != nil {
		s.Log.Warn("ignore rules of the project's owner not refreshed", "op", "git", "err", err)
	}
}

// openGit serves the shared git directory.
func (s *Shim) openGit(ctx context.Context, v *views) error {
	sp := s.Spec
	dirs, err := s.objectDirs()
	if err != nil {
		return err
	}
	if err := private.Within(filepath.Dir(s.at(sp.PrivateGit))); err != nil {
		return err
	}
	if err := gitdir.Prepare(s.at(sp.PrivateGit), s.at(sp.BareRepo), sp.GitSeed, dirs, sp.UID, sp.GID); err != nil {
		return err
	}
	s.ignore()
	bare, err := openDir(s.at(sp.BareRepo))
	if err != nil {
		return err
	}
	defer bare.Close()
	priv, err := openDir(s.at(sp.PrivateGit))
	if err != nil {
		return err
	}
	defer priv.Close()
	if err := os.MkdirAll(s.path("packs"), 0o700); err != nil {
		return err
	}
	s.onClose("scratch of packs", func(ctx context.Context) error { return fdtree.RemoveAll(ctx, s.path("packs")) })
	used := &usage{path: s.at(gitUsage(sp))}
	before, err := used.load()
	if err != nil {
		return err
	}
	owned := sp.OwnedRefs
	if sp.Branch != "" {
		owned = append([]string{"refs/heads/" + sp.Branch}, owned...)
	}
	groups, err := gitGroups(sp, s.Log)
	if err != nil {
		return err
	}
	s.onClose("control group of git", groups.Close)
	v.gitg, err = gitdir.New(gitdir.Config{Agent: sp.Agent, Worktree: sp.Agent, Target: "refs/heads/" + sp.Target, Owned: owned, Remotes: sp.GitRemotes, ReadOnly: sp.ReadOnly,
		OnOwn: s.ownRef, OnDisown: s.disownRef, OnDenial: s.deniedGit, OnCleared: s.clearedLock, Log: s.Log, Now: time.Now,
		RootFD: int(bare.Fd()), PrivateFD: int(priv.Fd()), Locker: gitLocker{v.locks}, Journal: s.at(gitJournal(sp)),
		Packs: &packs{account: groups.Account(sp.Agent), bare: git.Repo{Runner: &git.Runner{UID: uint32(sp.UID), GID: uint32(sp.GID), Log: s.Log}, Dir: sp.BareRepo}, own: filepath.Join(sp.PrivateGit, "objects"), scratch: s.path("packs"), filtered: sp.Filtered},
		Quota: sp.GitBytes, Used: before, OnUsed: used.grow,
		Disk: s.gitQuota, Counted: s.disk.count})
	if err != nil {
		return err
	}
	s.onClose("git guard", func(context.Context) error { return errors.Join(v.gitg.Close(), used.save(v.gitg.Used())) })
	if err := os.MkdirAll(gitMount(sp), 0o755); err != nil {
		return err
	}
	s.onClose("git mount point", func(context.Context) error { return removeIfThere(gitMount(sp)) })
	// Other agents and the daemon change this directory too; the guard decides what the kernel
	// may cache of it.
	v.git, err = s.mount(ctx, "git directory", fusefs.Config{Roots: []int{int(bare.Fd()), int(priv.Fd())}, Guard: v.gitg, Auditor: s.gitAuditor(),
		Mountpoint: gitMount(sp), FsName: fsName(sp), NoXattrs: true, NoRing: sp.NoRing, Log: s.Log})
	if err != nil {
		return err
	}
	sweeping, stop := context.WithCancel(s.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		v.gitg.Run(sweeping)
	}()
	s.onClose("stale locks of git", func(context.Context) error { stop(); <-done; return nil })
	return nil
}

// recoverLocks removes the lock files that a killed shim has left.
func recoverLocks(sp wire.Spec) error {
	if !sp.Git {
		return nil
	}
	state, err := openState(sp)
	if errors.Is(err, os.ErrNotExist) || api.CodeOf(err) == api.CodeWorkspaceInvalid {
		return nil // the workspace is removed, or another directory is at its path
	}
	if err != nil {
		return err
	}
	defer state.Close()
	_, err = gitdir.Recover(at(state, sp, gitJournal(sp)), at(state, sp, sp.BareRepo), at(state, sp, sp.PrivateGit))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func (s *Shim) deniedGit(d gitdir.Denial) {
	s.denied(ofProcess(view.Denial{Time: d.Time, Op: d.Op, Path: d.Path, Code: d.Code, Errno: unix.ErrnoName(d.Errno), Pid: d.Pid, Hint: d.Hint,
		Holder: d.Holder, Since: d.Since}))
}

func (s *Shim) ownRef(ref string) {
	s.views.mu.Lock()
	s.views.refs[ref] = true
	s.views.mu.Unlock()
	s.events.Publish(api.Event{Type: wire.EventOwnRef, Agent: s.Spec.Agent, Message: "agent " + s.Spec.Agent + " made " + ref, Data: map[string]any{"ref": ref}})
}

func (s *Shim) disownRef(ref string) {
	s.views.mu.Lock()
	delete(s.views.refs, ref)
	s.views.mu.Unlock()
	s.events.Publish(api.Event{Type: wire.EventOwnRef, Agent: s.Spec.Agent, Message: "agent " + s.Spec.Agent + " removed " + ref, Data: map[string]any{"ref": ref, "gone": true}})
}

// clearedLock emits an event: git's lock file was removed because its process has died.
func (s *Shim) clearedLock(c gitdir.Cleared) {
	s.views.git.InvalidatePath(strings.TrimPrefix(c.Path, ".git/"))
	s.views.whys.Add(view.Denial{Time: time.Now(), Op: "unlink", Path: c.Path, Code: "STALE_LOCK", Pid: uint32(max(c.Pid, 0)),
		Hint: "polis removed this lock file: " + c.Why})
	s.updateWhy()
	s.events.Publish(api.Event{Type: api.EventLock, Agent: s.Spec.Agent,
		Message: fmt.Sprintf("agent %s: stale %s was removed: %s", s.Spec.Agent, c.Path, c.Why),
		Data:    map[string]any{"path": c.Path, "pid": c.Pid, "why": c.Why}})
}
