package shim

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/api/setting"
	"polis/daemon/api/wire"
	"polis/fusefs/ignore"
	"polis/fusefs/overlayfs"
	"polis/internal/need"
	"polis/internal/pinned"
)

const (
	ann = 4321
	bob = 4322
)

// homes has a workspace with its project in a directory of ann's, one in a private directory of bob's, and one of
// root's. Each file "who" names the user.
func homes(t *testing.T) (dir string) {
	need.Root(t)
	dir = t.TempDir()
	for p := dir; len(p) > len(os.TempDir()); p = filepath.Dir(p) {
		require.NoError(t, os.Chmod(p, 0o755))
	}
	for who, uid := range map[string]int{"ann": ann, "bob": bob, "root": 0} {
		top := filepath.Join(dir, who)
		for path, of := range map[string]int{"": uid, "project": uid, "project/.git": uid, "project/.git/info": uid, "project/deps": uid, "ws": 0, "ws/.polis": 0,
			"ws/.polis/worktrees": 0, "ws/.polis/worktrees/alice": uid, "ws/.polis/bare-repo.git": uid, "ws/.polis/bare-repo.git/objects": uid,
			"ws/.polis/bare-repo.git/worktrees": uid, "ws/.polis/bare-repo.git/worktrees/alice": uid, "ws/.polis/private": 0, "ws/.polis/private/alice": uid, "ws/.polis/private/alice/info": uid,
			"ws/.polis/homes": 0, "ws/.polis/homes/alice": uid, "ws/.polis/scratch": 0, "ws/.polis/scratch/alice": uid, "ws/.polis/logs": 0, "ws/.polis/logs/alice": 0} {
			p := filepath.Join(top, path)
			require.NoError(t, os.MkdirAll(p, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(p, "who"), []byte(who), 0o644))
			require.NoError(t, os.Lchown(p, of, of))
		}
		if who != "ann" {
			require.NoError(t, os.Chmod(top, 0o700))
		}
	}
	return dir
}

// shimOf is the shim of ann's agent, which has resolved its places.
func shimOf(t *testing.T, dir string) *Shim {
	state := filepath.Join(dir, "ann/ws/.polis")
	r, err := pinned.Take(filepath.Join(dir, "ann/project"))
	require.NoError(t, err)
	s := &Shim{Log: slog.New(slog.DiscardHandler), Spec: wire.Spec{Agent: "alice", Workspace: "ws", RunDir: t.TempDir(), UID: ann, GID: ann, State: state, Project: r, ProjectPath: r.Path, Git: true,
		Tree: state + "/worktrees/alice", Mountpoint: state + "/worktrees/alice", BareRepo: state + "/bare-repo.git", PrivateGit: state + "/private/alice",
		HomeDir: state + "/homes/alice", Scratch: state + "/scratch/alice", LogDir: state + "/logs/alice", Settings: wire.Settings{Policy: api.Policy{Temp: true}}}}
	return s
}

func open(t *testing.T, s *Shim) {
	done, err := s.openPlaces()
	require.NoError(t, err)
	t.Cleanup(func() { done(); s.state.Close() })
}

// exchange puts a link of ann's in the place of a path, and returns what undoes it.
func exchange(t *testing.T, path, target string) (undo func()) {
	require.NoError(t, os.Rename(path, path+".away"))
	require.NoError(t, os.Symlink(target, path))
	require.NoError(t, os.Lchown(path, ann, ann))
	return func() {
		require.NoError(t, os.Remove(path))
		require.NoError(t, os.Rename(path+".away", path))
	}
}

// exchanging exchanges a path and a link as fast as possible until the test ends.
func exchanging(t *testing.T, path, target string) {
	link := path + ".link"
	require.NoError(t, os.Symlink(target, link))
	require.NoError(t, os.Lchown(link, ann, ann))
	dir, err := os.Open(filepath.Dir(path)) // ann's own, where it is now
	require.NoError(t, err)
	name, at := filepath.Base(path), int(dir.Fd())
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			default:
				_ = unix.Renameat2(at, name, at, name+".link", unix.RENAME_EXCHANGE)
			}
		}
	}()
	t.Cleanup(func() { close(done); <-stopped; dir.Close() })
}

// who reads the file in an open directory.
func who(t *testing.T, dir *os.File) string {
	fd, err := unix.Openat(int(dir.Fd()), "who", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	f := os.NewFile(uintptr(fd), "who")
	defer f.Close()
	b := make([]byte, 16)
	n, err := f.Read(b)
	require.NoError(t, err)
	return string(b[:n])
}

func TestAShimStartsForTheRecordedProjectOnly(t *testing.T) {
	d := homes(t)
	s := shimOf(t, d)
	for _, git := range []bool{true, false} {
		s.Spec.Git = git
		for at, target := range map[string]string{"ann/project": "bob/project", "ann": "bob", "ann/project/.git": "root/project/.git"} {
			undo := exchange(t, filepath.Join(d, at), filepath.Join(d, target))
			_, err := s.openPlaces()
			require.Equal(t, api.CodeProjectChanged, api.CodeOf(err), "%s: %v", at, err)
			require.Contains(t, api.AsError(err).Hint, "polisctl workspace move ws")
			undo()
		}
	}
	open(t, s)
	s.Spec.Project = pinned.Record{} // of an older polisd
	_, err := s.openPlaces()
	require.Equal(t, api.CodeShimUnavailable, api.CodeOf(err))
}

func TestAShimStartsInAWorkspaceOfRootsOnly(t *testing.T) {
	d := homes(t)
	s := shimOf(t, d)
	for at, target := range map[string]string{"ann/ws": "bob/ws", "ann/ws/.polis": "root/ws/.polis"} {
		undo := exchange(t, filepath.Join(d, at), filepath.Join(d, target))
		_, err := s.openPlaces()
		require.Equal(t, api.CodeWorkspaceInvalid, api.CodeOf(err), "%s: %v", at, err)
		undo()
	}
	require.NoError(t, os.Lchown(s.Spec.State, ann, ann))
	_, err := s.openPlaces()
	require.Equal(t, api.CodeWorkspaceInvalid, api.CodeOf(err), "%v", err)
	require.NoError(t, os.Lchown(s.Spec.State, 0, 0))
	s.Spec.State = "" // of an older polisd, for a clean-up
	require.Equal(t, filepath.Join(d, "ann/ws/.polis"), stateOf(s.Spec))
}

// TestEveryDirectoryOfAShimIsInTheWorkspace: polisd reads some paths from files of the workspace.
func TestEveryDirectoryOfAShimIsInTheWorkspace(t *testing.T) {
	d := homes(t)
	s := shimOf(t, d)
	for name, set := range map[string]func(*wire.Spec, string){
		"lower": func(sp *wire.Spec, path string) { sp.Lower = path }, "setup": func(sp *wire.Spec, path string) { sp.Setup = path }, "tree": func(sp *wire.Spec, path string) { sp.Tree = path },
		"store": func(sp *wire.Spec, path string) { sp.Shared = &wire.Shared{Store: path} }, "home": func(sp *wire.Spec, path string) { sp.HomeDir = path },
		"log": func(sp *wire.Spec, path string) { sp.Check = &wire.Check{Log: path} },
	} {
		for _, path := range []string{filepath.Join(d, "root"), s.Spec.State, s.Spec.State + "/../../../root", s.Spec.State + "/logs/../x", s.Spec.State + "x/logs", "relative"} {
			sp := s.Spec
			set(&sp, path)
			require.ErrorContains(t, checkPlaces(sp), "is not in "+s.Spec.State, "%s: %s", name, path)
		}
	}
	require.NoError(t, checkPlaces(s.Spec))
}

// TestWhatIsBelowTheWorkspaceStaysThere: after the start, the workspace is exchanged for bob's.
func TestWhatIsBelowTheWorkspaceStaysThere(t *testing.T) {
	d := homes(t)
	s := shimOf(t, d)
	open(t, s)
	exchange(t, filepath.Join(d, "ann/ws"), filepath.Join(d, "bob/ws"))
	for _, path := range []string{s.Spec.Tree, s.Spec.HomeDir, s.Spec.BareRepo, s.Spec.PrivateGit, s.Spec.LogDir} {
		b, err := os.ReadFile(filepath.Join(s.at(path), "who"))
		require.NoError(t, err)
		require.Equal(t, "ann", string(b), path)
		f, err := s.openBelow(path)
		require.NoError(t, err)
		require.Equal(t, "ann", who(t, f), path)
		require.NoError(t, f.Close())
	}
	l, err := openLog(s.logDir(), OutputLog, 1<<20)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.NoFileExists(t, filepath.Join(d, "bob/ws/.polis/logs/alice", OutputLog))
	require.Equal(t, "/somewhere/else", s.at("/somewhere/else"))
	err = s.named(api.Errorf(api.CodeInternal, "open %s: disk full", s.logDir()))
	require.EqualError(t, err, "open "+s.Spec.LogDir+": disk full")
}

func TestAPlainProjectIsShownByItsRecord(t *testing.T) {
	d := homes(t)
	for _, asUser := range []bool{false, true} {
		s := shimOf(t, d)
		s.Spec.Git, s.Spec.AsUser, s.Spec.Tree = false, asUser, s.Spec.ProjectPath
		want := "ann"
		if asUser { // the directory is root's, and above it nobody else
			r, err := pinned.Take(filepath.Join(d, "root/project"))
			require.NoError(t, err)
			s.Spec.Project, want = r, "root"
		}
		open(t, s)
		undo := exchange(t, filepath.Join(d, "ann/project"), filepath.Join(d, "bob/project"))
		for _, open := range []func() (*os.File, error){s.openBacking, s.openWritten} {
			tree, err := open()
			require.NoError(t, err)
			require.Equal(t, want, who(t, tree))
			require.NoError(t, tree.Close())
		}
		undo()
	}
	s := shimOf(t, d)
	s.Spec.Git, s.Spec.AsUser = false, true
	open(t, s)
	_, err := s.openBacking()
	require.ErrorContains(t, err, "only a directory of root's")
}

// TestSourcesOfASandboxAreTheAgentsOwn: ann exchanges parts of the shared repository for links, and the workspace.
func TestSourcesOfASandboxAreTheAgentsOwn(t *testing.T) {
	d := homes(t)
	s := shimOf(t, d)
	open(t, s)
	check := func() {
		o, err := s.openSources()
		if err != nil {
			require.ErrorContains(t, err, "could exchange")
			return
		}
		defer o.close()
		require.Len(t, o.mounts, 4)
		for _, m := range o.mounts[1:] {
			require.Equal(t, "ann", who(t, m.Open), m.Dest)
		}
		require.Equal(t, "ann", who(t, o.home))
		require.Equal(t, "ann", who(t, o.scratch))
	}
	check()
	exchange(t, filepath.Join(d, "ann/ws"), filepath.Join(d, "bob/ws"))()
	objects := filepath.Join(s.Spec.BareRepo, "objects")
	undo := exchange(t, objects, filepath.Join(d, "root/ws/.polis/bare-repo.git/objects"))
	_, err := s.openSources()
	require.ErrorContains(t, err, "a symbolic link of uid 4321")
	undo()
	exchanging(t, objects, filepath.Join(d, "bob/ws/.polis/bare-repo.git/objects"))
	exchanging(t, filepath.Join(d, "ann/ws"), filepath.Join(d, "root/ws"))
	for range 3000 {
		check()
	}
}

func TestConfiguredSourcesAreOpenedWithTheUsersRights(t *testing.T) {
	d := homes(t)
	s := shimOf(t, d)
	open(t, s)
	link := filepath.Join(d, "ann/link")
	s.Spec.Mounts = []setting.Mount{{Source: filepath.Join(link, "project"), Dest: "/data", ReadOnly: true}}
	for target, want := range map[string]string{"ann": "ann", "bob": "", "root": ""} {
		require.NoError(t, os.Symlink(filepath.Join(d, target), link))
		require.NoError(t, os.Lchown(link, ann, ann))
		o, err := s.openSources()
		if want == "" {
			require.ErrorIs(t, err, unix.EACCES, target)
		} else {
			require.NoError(t, err)
			require.Equal(t, want, who(t, o.mounts[0].Open))
			o.close()
		}
		require.NoError(t, os.Remove(link))
	}
}

func TestSharedDirectoriesOfACheckAreTheProjects(t *testing.T) {
	d := homes(t)
	s := shimOf(t, d)
	s.Spec.Check = &wire.Check{Shared: []string{"deps", "gone"}}
	open(t, s)
	o, err := s.openCheckSources()
	require.NoError(t, err)
	require.Len(t, o.mounts, 2)
	require.Equal(t, "ann", who(t, o.mounts[1].Open))
	require.Equal(t, filepath.Join(s.Spec.ProjectPath, "deps"), o.mounts[1].Dest)
	o.close()
	exchange(t, filepath.Join(d, "ann/project/deps"), filepath.Join(d, "bob/project/deps"))
	_, err = s.openCheckSources()
	require.Error(t, err)
	for _, name := range []string{"..", "../../bob/project", "/etc"} {
		_, err := sharedDir(s.project, name)
		require.ErrorIs(t, err, unix.EXDEV, name)
	}
}

// index is an index of git with one path.
func index(path string) string {
	entry := make([]byte, 62, 62+len(path)+8)
	entry[60], entry[61] = byte(len(path)>>8), byte(len(path))
	entry = append(entry, path...)
	entry = append(entry, make([]byte, 8-len(entry)%8)...)
	return "DIRC\x00\x00\x00\x02\x00\x00\x00\x01" + string(entry) + strings.Repeat("\x00", 20)
}

// TestGitFilesOfAProjectAreReadWithItsOwnersRights: whatever its owner puts in their place, and again each time they
// are read.
func TestGitFilesOfAProjectAreReadWithItsOwnersRights(t *testing.T) {
	d := homes(t)
	for _, who := range []string{"ann", "bob", "root"} {
		git := filepath.Join(d, who, "project/.git")
		require.NoError(t, os.WriteFile(filepath.Join(git, "info/exclude"), []byte(who+"-ignored\n*-tracked\n"), 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(git, "index"), []byte(index(who+"-tracked")), 0o644))
	}
	s := shimOf(t, d)
	open(t, s)
	git := &projectGit{project: s.project, uid: ann, gid: ann}
	require.NoError(t, git.check())
	m, err := ignore.New(ignore.Config{RootFD: int(s.project.Fd()), IndexPath: indexFile, ExcludePath: excludeFile, Outside: git.open, Recheck: -1})
	require.NoError(t, err)
	defer m.Close()
	// What is not known to be untracked is not exempt.
	require.True(t, m.Exempt("ann-ignored", false))
	require.False(t, m.Exempt("ann-tracked", false))
	require.True(t, m.Exempt("bob-tracked", false))

	mine := filepath.Join(d, "ann/project/.git")
	fifo := func(at string) func() {
		require.NoError(t, os.Rename(at, at+".away"))
		require.NoError(t, unix.Mkfifo(at, 0o666))
		return func() {
			require.NoError(t, os.Remove(at))
			require.NoError(t, os.Rename(at+".away", at))
		}
	}
	file := func(at, text string) func() {
		require.NoError(t, os.Rename(at, at+".away"))
		require.NoError(t, os.WriteFile(at, []byte(text), 0o644))
		require.NoError(t, os.Lchown(at, ann, ann))
		return func() {
			require.NoError(t, os.Remove(at))
			require.NoError(t, os.Rename(at+".away", at))
		}
	}
	add := func(at, text string) func() {
		require.NoError(t, os.WriteFile(at, []byte(text), 0o644))
		return func() { require.NoError(t, os.Remove(at)) }
	}
	for name, step := range map[string]func(who string) func(){
		".git is a link":          func(who string) func() { return exchange(t, mine, filepath.Join(d, who, "project/.git")) },
		".git names a directory":  func(who string) func() { return file(mine, "gitdir: "+filepath.Join(d, who, "project/.git")+"\n") },
		".git names it, relative": func(who string) func() { return file(mine, "gitdir: ../../"+who+"/project/.git\n") },
		"commondir": func(who string) func() {
			return add(filepath.Join(mine, "commondir"), filepath.Join(d, who, "project/.git")+"\n")
		},
		"index is a link": func(who string) func() {
			return exchange(t, filepath.Join(mine, "index"), filepath.Join(d, who, "project/.git/index"))
		},
		"info is a link": func(who string) func() {
			return exchange(t, filepath.Join(mine, "info"), filepath.Join(d, who, "project/.git/info"))
		},
		".git is a pipe":    func(string) func() { return fifo(mine) },
		"index is a pipe":   func(string) func() { return fifo(filepath.Join(mine, "index")) },
		"exclude is a pipe": func(string) func() { return fifo(filepath.Join(mine, "info/exclude")) },
		"commondir is a pipe": func(string) func() {
			at := filepath.Join(mine, "commondir")
			require.NoError(t, unix.Mkfifo(at, 0o666))
			return func() { require.NoError(t, os.Remove(at)) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, who := range []string{"bob", "root"} {
				undo := step(who)
				began := time.Now()
				require.False(t, m.Exempt(who+"-ignored", false), "the file exclude of %s is used", who)
				require.False(t, m.Exempt("ann-tracked", false), "the index of %s is used", who)
				require.Less(t, time.Since(began), 10*time.Second, "it waits for nobody")
				undo()
				require.True(t, m.Exempt("ann-ignored", false))
			}
		})
	}
	// A linked worktree of ann's own works.
	elsewhere := filepath.Join(d, "ann/elsewhere")
	require.NoError(t, os.MkdirAll(filepath.Join(elsewhere, "worktrees/x"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(elsewhere, "info"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(elsewhere, "info/exclude"), []byte("linked-ignored\n*-tracked\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(elsewhere, "worktrees/x/commondir"), []byte("../..\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(elsewhere, "worktrees/x/index"), []byte(index("linked-tracked")), 0o644))
	undo := file(mine, "gitdir: ../elsewhere/worktrees/x\n")
	require.True(t, m.Exempt("linked-ignored", false))
	require.False(t, m.Exempt("linked-tracked", false))
	require.True(t, m.Exempt("ann-tracked", false))
	undo()
	// A .git of another user in root's project is not read as root.
	r, err := os.Open(filepath.Join(d, "root/project"))
	require.NoError(t, err)
	defer r.Close()
	require.NoError(t, (&projectGit{project: r}).check())
	require.NoError(t, os.Lchown(filepath.Join(d, "root/project/.git"), ann, ann))
	require.ErrorIs(t, (&projectGit{project: r}).check(), os.ErrPermission)
}

// TestTheAgentsOwnGitFilesAreOpenedBelowTheWorkspace is the same for the index and info/exclude of an agent.
func TestTheAgentsOwnGitFilesAreOpenedBelowTheWorkspace(t *testing.T) {
	d := homes(t)
	s := shimOf(t, d)
	open(t, s)
	at, exclude := filepath.Join(s.Spec.BareRepo, "worktrees/alice"), filepath.Join(s.Spec.PrivateGit, "info/who")
	read := func(path string) string {
		fd, err := s.gitFile(path, unix.O_RDONLY|unix.O_NONBLOCK)
		if err != nil {
			return err.Error()
		}
		defer unix.Close(fd)
		b := make([]byte, 16)
		n, err := unix.Read(fd, b)
		require.NoError(t, err)
		return string(b[:n])
	}
	require.Equal(t, "ann", read(filepath.Join(at, "who")))
	require.Equal(t, "ann", read(exclude))
	bobs := filepath.Join(d, "bob/ws/.polis/bare-repo.git/worktrees")
	for path, target := range map[string]string{at: bobs + "/alice", filepath.Dir(at): bobs, filepath.Join(at, "who"): bobs + "/alice/who"} {
		undo := exchange(t, path, target)
		require.NotEqual(t, "bob", read(filepath.Join(at, "who")), path)
		undo()
	}
	exchange(t, filepath.Join(d, "ann/ws"), filepath.Join(d, "bob/ws"))
	require.Equal(t, "ann", read(filepath.Join(at, "who")))
	require.Contains(t, read("/etc/passwd"), "no such file")
}

// TestACleanUpUnmountsNothingOfOthers: the workspace of a dead shim is exchanged for one in which another agent of the
// same name has its view.
func TestACleanUpUnmountsNothingOfOthers(t *testing.T) {
	d := homes(t)
	s := shimOf(t, d)
	mount := func(who string) string {
		target := filepath.Join(d, who, "ws/.polis/worktrees/alice")
		lower, upper := t.TempDir(), t.TempDir()
		for _, dir := range []string{"u", "w"} {
			require.NoError(t, os.Mkdir(filepath.Join(upper, dir), 0o755))
		}
		require.NoError(t, overlayfs.Mount(overlayfs.Layers{Lower: []string{lower}, Upper: filepath.Join(upper, "u"), Work: filepath.Join(upper, "w"), Target: target, Source: fsName(s.Spec)}))
		t.Cleanup(func() { _ = unix.Unmount(target, unix.MNT_DETACH) })
		return target
	}
	mounted := func(path string) bool { is, err := overlayfs.Mounted(path); require.NoError(t, err); return is }
	mine, bobs := mount("ann"), mount("bob")
	undo := exchange(t, filepath.Join(d, "ann/ws"), filepath.Join(d, "bob/ws"))
	require.NoError(t, unmountView(s.Spec))
	require.True(t, mounted(bobs))
	undo()
	require.NoError(t, unmountView(s.Spec))
	require.False(t, mounted(mine))
	require.True(t, mounted(bobs))
	require.NoError(t, unmountView(s.Spec), "nothing is mounted")
	// A spec that was made for what is left has the path only.
	require.NoError(t, unmountView(wire.Spec{Agent: "alice", Mountpoint: bobs}))
	require.False(t, mounted(bobs))
	require.NoError(t, unmountAll(filepath.Join(d, "none"), "polis:alice"))
	require.NoError(t, s.unwind(context.Background()))
}
