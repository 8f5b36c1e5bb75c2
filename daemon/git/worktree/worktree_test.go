package worktree

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/internal/need"
)

const nobody = 65534

func needRoot(t *testing.T) {
	t.Helper()
	need.Root(t)
}

// tempDir is a directory that other users can enter.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for _, d := range []string{dir, filepath.Dir(dir)} {
		require.NoError(t, os.Chmod(d, 0o755))
	}
	return dir
}

// as runs git in dir as uid, the way a user does.
func as(t *testing.T, uid uint32, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@example.org", "GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@example.org"}
	if os.Geteuid() == 0 {
		cred, err := git.Credential(uid, uid)
		require.NoError(t, err)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "git %v: %s", args, out)
	return strings.TrimSuffix(string(out), "\n")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

// project makes a repository of root's with a little history.
func project(t *testing.T, args ...string) string {
	t.Helper()
	dir := filepath.Join(tempDir(t), "src")
	require.NoError(t, os.Mkdir(dir, 0o755))
	as(t, 0, dir, append([]string{"init", "-q", "-b", "main"}, args...)...)
	write(t, filepath.Join(dir, "README"), "hello\n")
	write(t, filepath.Join(dir, "a dir/with space"), "x\n")
	as(t, 0, dir, "add", ".")
	as(t, 0, dir, "commit", "-qm", "first")
	as(t, 0, dir, "branch", "topic")
	as(t, 0, dir, "tag", "-am", "one", "v1")
	return dir
}

func spec(t *testing.T, repo string) Spec {
	return Spec{Workspace: filepath.Join(tempDir(t), "ws"), Repo: repo, UID: nobody, GID: nobody}
}

func up(t *testing.T, s Spec) *Workspace {
	t.Helper()
	_, err := Up(t.Context(), s)
	require.NoError(t, err)
	// The tests are the agents, too, who work there; TestOnlyRootReachesAWorktree
	// has it as it is.
	require.NoError(t, os.Chmod(filepath.Join(s.Workspace, ".polis", "worktrees"), 0o711))
	return Open(Config{Workspace: s.Workspace, UID: s.UID, GID: s.GID})
}

// chown gives files a test wrote to the owner of the worktrees.
func chown(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, nobody, nobody)
	}))
}

// picture is everything in a directory but .git, as text.
func picture(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if rel == ".git" {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		fi, err := e.Info()
		if err != nil || fi.IsDir() {
			return err
		}
		if fi.Mode()&fs.ModeSymlink != 0 {
			to, err := os.Readlink(path)
			got[rel] = "-> " + to
			return err
		}
		if !fi.Mode().IsRegular() {
			return nil // a pipe would wait for a writer
		}
		data, err := os.ReadFile(path)
		got[rel] = fmt.Sprintf("%v %s", fi.Mode()&0o100 != 0, data)
		return err
	}))
	return got
}

// snapshot is a whole directory tree with times, to prove that nothing changed.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := e.Info()
		if err == nil {
			got[path] = fmt.Sprint(fi.Mode(), fi.Size(), fi.ModTime().UnixNano(), owner(fi))
		}
		return err
	}))
	return got
}

// Feature: multi-agent-workspaces, Property 20: Initialization Idempotence
func TestUpTwiceChangesNothing(t *testing.T) {
	needRoot(t)
	s := spec(t, project(t))
	first, err := Up(t.Context(), s)
	require.NoError(t, err)
	require.True(t, first.Git)
	require.True(t, first.Changed)
	require.Equal(t, "main", first.Target)
	require.Equal(t, s.Repo, first.ProjectPath)
	require.Equal(t, Owner{0, 0}, first.ProjectOwner)

	w := Open(Config{Workspace: s.Workspace, UID: nobody, GID: nobody})
	_, err = w.Add(t.Context(), "claude", "", "")
	require.NoError(t, err)
	before := snapshot(t, s.Workspace)
	for _, repo := range []string{s.Repo, "", s.Repo + "/."} {
		again, err := Up(t.Context(), Spec{Workspace: s.Workspace, Repo: repo, UID: nobody, GID: nobody})
		require.NoError(t, err)
		require.False(t, again.Changed)
		again.Changed = true
		require.Equal(t, first, again)
		require.Equal(t, before, snapshot(t, s.Workspace))
	}
	refs, err := w.Bare().Refs(t.Context(), "refs/heads/main", "refs/heads/topic", "refs/tags/v1")
	require.NoError(t, err)
	require.Len(t, refs, 3)
	as(t, nobody, w.bareDir(), "fsck", "--strict")
}

func TestUpRefusesWithAHint(t *testing.T) {
	needRoot(t)
	repo := project(t)
	require.NoError(t, os.Mkdir(filepath.Join(repo, "sub"), 0o755))
	empty := filepath.Join(tempDir(t), "empty")
	as(t, 0, filepath.Dir(empty), "init", "-q", empty)
	detached := project(t)
	as(t, 0, detached, "checkout", "-q", "--detach")
	broken := filepath.Join(tempDir(t), "broken")
	require.NoError(t, os.MkdirAll(filepath.Join(broken, ".git"), 0o755))
	reftable := project(t)
	as(t, 0, reftable, "config", "core.repositoryformatversion", "1")
	as(t, 0, reftable, "config", "extensions.refStorage", "reftable")
	shallow := filepath.Join(tempDir(t), "shallow")
	as(t, 0, "/", "clone", "-q", "--depth=1", "file://"+repo, shallow)
	as(t, 0, repo, "commit", "--allow-empty", "-qm", "second")
	shallow2 := filepath.Join(tempDir(t), "shallow")
	as(t, 0, "/", "clone", "-q", "--depth=1", "file://"+repo, shallow2)

	partial := filepath.Join(tempDir(t), "partial")
	as(t, 0, repo, "config", "uploadpack.allowFilter", "true")
	as(t, 0, repo, "rm", "-q", "README")
	as(t, 0, repo, "commit", "-qm", "third")
	as(t, 0, "/", "clone", "-q", "--filter=blob:none", "file://"+repo, partial)
	for name, c := range map[string]struct{ repo, target, want string }{
		"partial clone":        {partial, "", "git -C " + partial + " fetch --refetch --no-filter origin"},
		"part of a repository": {filepath.Join(repo, "sub"), "", "--repo " + repo},
		"no commit":            {empty, "", "commit --allow-empty"},
		"detached HEAD":        {detached, "", "--target"},
		"no such target":       {repo, "nope", "main, topic"},
		"hostile target":       {repo, "--help", ""},
		"broken .git":          {broken, "", "status"},
		"reftable":             {reftable, "", "refs migrate"},
		"shallow":              {shallow2, "", "--unshallow"},
		"inside the git dir":   {filepath.Join(repo, ".git/objects"), "", ""},
		"ext helper":           {"ext::sh -c touch% /tmp/canary", "", "URL"},
		"leading dash":         {"--upload-pack=touch /tmp/canary", "", "URL"},
		"dash host":            {"ssh://-oProxyCommand=x/y", "", "URL"},
		"odd scheme":           {"ftp://example.org/x", "", "URL"},
		"newline":              {"/a\nb", "", "URL"},
		"no such path":         {"/nonexistent/x", "", "URL"},
		"relative":             {"x/y", "", "URL"},
		"nothing to clone":     {"file:///nonexistent/x", "", "clone it yourself"},
	} {
		t.Run(name, func(t *testing.T) {
			s := spec(t, c.repo)
			s.Target = c.target
			_, err := Up(t.Context(), s)
			require.Equal(t, api.CodeWorkspaceInvalid, api.CodeOf(err), "%v", err)
			require.Contains(t, api.AsError(err).Hint, c.want)
			require.NoDirExists(t, filepath.Join(s.Workspace, ".polis/bare-repo.git"))
			left, err := filepath.Glob(filepath.Join(s.Workspace, ".polis/*-*"))
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
	t.Run("a partial clone that was made complete", func(t *testing.T) {
		as(t, 0, partial, "fetch", "-q", "--refetch", "--no-filter", "origin")
		up(t, spec(t, partial))
	})
	t.Run("workspace inside the repository", func(t *testing.T) {
		for _, ws := range []string{repo, filepath.Join(repo, "ws")} {
			_, err := Up(t.Context(), Spec{Workspace: ws, Repo: repo, UID: nobody, GID: nobody})
			require.Equal(t, api.CodeWorkspaceInvalid, api.CodeOf(err))
			require.NoDirExists(t, filepath.Join(ws, ".polis"))
		}
	})
	t.Run("another project", func(t *testing.T) {
		s := spec(t, repo)
		up(t, s)
		s.Repo = project(t)
		_, err := Up(t.Context(), s)
		require.ErrorContains(t, err, "already belongs to")
	})
	t.Run("a place the owner cannot enter", func(t *testing.T) {
		s := spec(t, repo)
		require.NoError(t, os.Chmod(filepath.Dir(s.Workspace), 0o700))
		_, err := Up(t.Context(), s)
		require.ErrorContains(t, err, "cannot enter "+filepath.Dir(s.Workspace))
	})
	t.Run("nothing there", func(t *testing.T) {
		_, err := Up(t.Context(), spec(t, ""))
		require.Equal(t, api.CodeWorkspaceNotFound, api.CodeOf(err))
	})
}

func TestUpOnAPlainDirectory(t *testing.T) {
	needRoot(t)
	dir := filepath.Join(tempDir(t), "plain")
	require.NoError(t, os.Mkdir(dir, 0o755))
	s := spec(t, dir)
	for range 2 {
		info, err := Up(t.Context(), s)
		require.NoError(t, err)
		require.False(t, info.Git)
	}
	require.NoDirExists(t, filepath.Join(s.Workspace, ".polis/bare-repo.git"))
}

func TestUpClones(t *testing.T) {
	needRoot(t)
	src := project(t)
	bare := filepath.Join(tempDir(t), "b.git")
	as(t, 0, "/", "clone", "-q", "--bare", src, bare)
	for _, repo := range []string{"file://" + src, bare} {
		s := spec(t, repo)
		info, err := Up(t.Context(), s)
		require.NoError(t, err)
		require.Equal(t, Owner{nobody, nobody}, info.ProjectOwner)
		require.Equal(t, "main", info.Target)
		require.FileExists(t, filepath.Join(s.Workspace, "project/README"))
		again, err := Up(t.Context(), s)
		require.NoError(t, err)
		require.False(t, again.Changed)
		s.Repo = "file:///elsewhere"
		_, err = Up(t.Context(), s)
		require.ErrorContains(t, err, "already belongs to")
	}
}

func TestSHA256Workspace(t *testing.T) {
	needRoot(t)
	s := spec(t, project(t, "--object-format=sha256"))
	w := up(t, s)
	tree, err := w.Add(t.Context(), "claude", "", "")
	require.NoError(t, err)
	write(t, filepath.Join(tree.Path, "new"), "new\n")
	chown(t, tree.Path)
	ref, err := w.Discard(t.Context(), "claude", "")
	require.NoError(t, err)
	require.Len(t, ref.Commit, 64)
	_, err = w.Restore(t.Context(), ref.Ref, "", "")
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(tree.Path, "new"))
}

func TestGuardRefusesAConfigurationOfAnothers(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	for name, spoil := range map[string]func(string){
		"owner":     func(dir string) { require.NoError(t, os.Chown(dir+"/config", nobody, nobody)) },
		"mode":      func(dir string) { require.NoError(t, os.Chmod(dir+"/config", 0o666)) },
		"hooks":     func(dir string) { require.NoError(t, os.Chown(dir+"/hooks", nobody, nobody)) },
		"commondir": func(dir string) { write(t, dir+"/commondir", "/tmp/evil\n") },
		"symlink": func(dir string) {
			require.NoError(t, os.Rename(dir+"/config", dir+"/config.old"))
			require.NoError(t, os.Symlink("config.old", dir+"/config"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := up(t, spec(t, project(t)))
			spoil(w.bareDir())
			_, err := w.Add(t.Context(), "claude", "", "")
			require.Equal(t, api.CodeRepoCorrupt, api.CodeOf(err), "%v", err)
		})
	}
	_, err := w.Target(t.Context())
	require.NoError(t, err)
}

func TestAddRefusesHostileNames(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	before := snapshot(t, w.cfg.Workspace)
	for _, agent := range []string{"", "A", "../x", "a/b", "-x", "x", strings.Repeat("a", 40)} {
		_, err := w.Add(t.Context(), agent, "", "")
		require.Equal(t, api.CodeInvalidName, api.CodeOf(err), "%q", agent)
	}
	for _, branch := range []string{"-f", "--help", "a..b", "a b", "a~1", "refs/heads/main", "HEAD", "@", "@{-1}", "a.lock", "x/../y", "a\nb", "a\\b", "/a", "a/", ".a", "a:b", strings.Repeat("a", 300), strings.Repeat("a", 40)} {
		_, err := w.Add(t.Context(), "claude", branch, "")
		require.Equal(t, api.CodeInvalidName, api.CodeOf(err), "%q", branch)
	}
	for _, base := range []string{"--help", "nope", "main:README", strings.Repeat("0", 40), ":/first\x00"} {
		_, err := w.Add(t.Context(), "claude", "", base)
		require.Error(t, err, "%q", base)
	}
	_, err := w.Add(t.Context(), "claude", "main", "")
	require.Equal(t, api.CodeRefConflict, api.CodeOf(err))
	_, err = w.Add(t.Context(), "claude", "main/x", "") // main is a file
	require.Equal(t, api.CodeRefConflict, api.CodeOf(err), "%v", err)
	after := snapshot(t, w.cfg.Workspace)
	for path := range after {
		require.Contains(t, before, path)
	}
}

func TestAddUsesBranches(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	one, err := w.Add(t.Context(), "claude", "topic", "")
	require.NoError(t, err)
	require.Equal(t, "topic", one.Branch)
	same, err := w.Add(t.Context(), "claude", "topic", "")
	require.NoError(t, err)
	require.Equal(t, one, same)
	_, err = w.Add(t.Context(), "claude", "other", "")
	require.Equal(t, api.CodeWorktreeFailed, api.CodeOf(err))
	_, err = w.Add(t.Context(), "gemini", "topic", "")
	require.Equal(t, api.CodeRefConflict, api.CodeOf(err))
	require.Equal(t, "claude", api.AsError(err).Details["agent"])
	two, err := w.Add(t.Context(), "gemini", "", "v1")
	require.NoError(t, err)
	require.Equal(t, "agent/gemini", two.Branch)
	require.Equal(t, "hello\n", as(t, nobody, two.Path, "show", "HEAD:README")+"\n")
	list, err := w.List()
	require.NoError(t, err)
	require.Equal(t, []Worktree{one, two}, list)
	fi, err := os.Lstat(filepath.Join(two.Path, "README"))
	require.NoError(t, err)
	require.EqualValues(t, nobody, owner(fi))
}

// Feature: multi-agent-workspaces, Property 22: Corrupted Worktree Handling
func TestWhatACrashLeftIsMovedToTheTrash(t *testing.T) {
	needRoot(t)
	for name, spoil := range map[string]func(w *Workspace){
		"directory without git": func(w *Workspace) { require.NoError(t, os.RemoveAll(w.admin("claude"))) },
		"git without directory": func(w *Workspace) { require.NoError(t, os.RemoveAll(w.tree("claude"))) },
		"interrupted checkout":  func(w *Workspace) { write(t, w.admin("claude")+"/locked", "initializing") },
		"no .git":               func(w *Workspace) { require.NoError(t, os.Remove(w.tree("claude")+"/.git")) },
		"no HEAD":               func(w *Workspace) { require.NoError(t, os.Remove(w.admin("claude")+"/HEAD")) },
		"pipe for HEAD": func(w *Workspace) {
			require.NoError(t, os.Remove(w.admin("claude")+"/HEAD"))
			require.NoError(t, unix.Mkfifo(w.admin("claude")+"/HEAD", 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := up(t, spec(t, project(t)))
			_, err := w.Add(t.Context(), "claude", "", "")
			require.NoError(t, err)
			_, err = w.Add(t.Context(), "gemini", "", "")
			require.NoError(t, err)
			write(t, w.tree("claude")+"/work", "precious")
			spoil(w)
			list, err := w.List()
			require.NoError(t, err)
			require.Len(t, list, 2)
			require.Error(t, list[0].Broken)
			require.NoError(t, list[1].Broken)
			made, err := w.Add(t.Context(), "claude", "", "")
			require.NoError(t, err)
			require.NoError(t, made.Broken)
			require.FileExists(t, made.Path+"/README")
			kept, err := filepath.Glob(w.trashDir() + "/claude.*/worktree/work")
			require.NoError(t, err)
			if name != "git without directory" {
				require.Len(t, kept, 1)
			}
		})
	}
}

// mess fills a worktree with everything git can hold, and a few traps.
func mess(t *testing.T, path string) {
	t.Helper()
	write(t, path+"/README", "changed\r\nlines\n")
	write(t, path+"/staged", "staged\n")
	as(t, 0, path, "-c", "safe.directory=*", "add", "staged")
	write(t, path+"/staged", "staged, then changed\n")
	write(t, path+"/new file\nwith newline", "n\n")
	write(t, path+"/deep/er/\xff\xfe not utf-8 \"quoted\" \\", "bytes \x00\x01\xff")
	write(t, path+"/.gitattributes", "* text eol=crlf filter=evil ident\n*.utf working-tree-encoding=UTF-16\n")
	write(t, path+"/a.utf", "plain $Id$ \r\n mixed \n")
	write(t, path+"/run.sh", "#!/bin/sh\n")
	require.NoError(t, os.Chmod(path+"/run.sh", 0o755))
	require.NoError(t, os.Symlink("/etc/shadow", path+"/link"))
	require.NoError(t, os.Symlink("nowhere", path+"/dangling"))
	require.NoError(t, os.RemoveAll(path+"/a dir"))
	write(t, path+"/a dir", "a file now\n")
	require.NoError(t, unix.Mkfifo(path+"/pipe", 0o644))
	write(t, path+"/empty", "")
	chown(t, path)
}

func TestUncommittedNamesEveryFile(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	_, err := w.Uncommitted(t.Context(), "nobody")
	require.Equal(t, api.CodeWorktreeMissing, api.CodeOf(err))
	tree, err := w.Add(t.Context(), "claude", "", "")
	require.NoError(t, err)
	paths, err := w.Uncommitted(t.Context(), "claude")
	require.NoError(t, err)
	require.Empty(t, paths)
	write(t, tree.Path+"/README", "changed\n")
	write(t, tree.Path+"/staged", "staged\n")
	as(t, 0, tree.Path, "-c", "safe.directory=*", "add", "staged")
	write(t, tree.Path+"/new/one", "1")
	write(t, tree.Path+"/new/two\nlines \xff", "2")
	as(t, 0, tree.Path, "init", "-q", "nested")
	write(t, tree.Path+"/nested/file", "not ours")
	chown(t, tree.Path)
	paths, err = w.Uncommitted(t.Context(), "claude")
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"README", "staged", "new/one", "new/two\nlines \xff", "nested"}, paths)
}

func TestSaveAndRestoreAreExact(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	tree, err := w.Add(t.Context(), "claude", "", "")
	require.NoError(t, err)
	write(t, tree.Path+"/mine", "committed\n")
	chown(t, tree.Path)
	as(t, nobody, tree.Path, "add", "mine")
	as(t, nobody, tree.Path, "commit", "-qm", "mine")
	mess(t, tree.Path)
	chown(t, w.admin("claude"))
	chown(t, w.bareDir()+"/objects")
	want := picture(t, tree.Path)
	staged := as(t, nobody, tree.Path, "diff", "--cached", "--raw")
	before, admin := snapshot(t, tree.Path), snapshot(t, tree.GitDir)

	status, err := w.Status(t.Context(), "claude", "agent/claude", View{})
	require.NoError(t, err)
	require.True(t, status.Dirty())
	require.Equal(t, 1, status.Ahead)
	require.Equal(t, 1, status.Staged)
	require.False(t, status.Merged)

	saved, err := w.Save(t.Context(), "claude", SaveOptions{})
	require.NoError(t, err)
	require.NotEmpty(t, saved.Ref)
	require.Equal(t, "agent/claude", saved.Branch)
	require.Equal(t, before, snapshot(t, tree.Path), "Save touches no file")
	require.Equal(t, admin, snapshot(t, tree.GitDir), "Save touches no index")

	gone, err := w.Discard(t.Context(), "claude", "")
	require.NoError(t, err)
	require.NoDirExists(t, tree.Path)
	require.NoDirExists(t, tree.GitDir)
	_, err = w.Bare().Ref(t.Context(), "refs/heads/agent/claude")
	require.ErrorIs(t, err, git.ErrNotFound)
	list, err := w.Trash(t.Context(), "claude")
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, gone.Commit, list[0].Commit)

	back, err := w.Restore(t.Context(), gone.Ref, "", "")
	require.NoError(t, err)
	require.Equal(t, "agent/claude", back.Branch)
	require.Equal(t, want, picture(t, back.Path))
	require.Equal(t, staged, as(t, nobody, back.Path, "diff", "--cached", "--raw"))
	require.Equal(t, gone.Head, as(t, nobody, back.Path, "rev-parse", "HEAD"))
	as(t, nobody, w.bareDir(), "fsck", "--strict")

	other, err := w.Restore(t.Context(), gone.Ref, "second", "agent/second")
	require.NoError(t, err)
	require.Equal(t, want, picture(t, other.Path))
	_, err = w.Restore(t.Context(), gone.Ref, "third", "topic")
	require.Equal(t, api.CodeRefConflict, api.CodeOf(err))
	_, err = w.Restore(t.Context(), "refs/heads/main", "", "")
	require.Equal(t, api.CodeNotFound, api.CodeOf(err))
}

func TestSaveOfNothingIsNothing(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	_, err := w.Add(t.Context(), "claude", "", "")
	require.NoError(t, err)
	saved, err := w.Save(t.Context(), "claude", SaveOptions{Branch: "agent/claude"})
	require.NoError(t, err)
	require.Empty(t, saved.Ref)
	refs, err := w.Bare().Refs(t.Context(), "refs/polis")
	require.NoError(t, err)
	require.Empty(t, refs)
	_, err = w.Discard(t.Context(), "claude", "")
	require.NoError(t, err)
}

func TestSaveDuringAConflictAndOnNoBranch(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	tree, err := w.Add(t.Context(), "claude", "", "")
	require.NoError(t, err)
	commit := func(text string) {
		write(t, tree.Path+"/README", text)
		as(t, nobody, tree.Path, "commit", "-qam", text)
	}
	chown(t, tree.Path)
	as(t, nobody, tree.Path, "checkout", "-q", "-b", "side")
	commit("side\n")
	as(t, nobody, tree.Path, "checkout", "-q", "agent/claude")
	commit("mine\n")
	as(t, nobody, tree.Path, "checkout", "-q", "--detach")
	cmd := exec.Command("git", "merge", "side")
	cmd.Dir = tree.Path
	cred, err := git.Credential(nobody, nobody)
	require.NoError(t, err)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@x"}
	require.Error(t, cmd.Run())
	want := picture(t, tree.Path)
	require.Contains(t, want["README"], "<<<<<<<")
	status, err := w.Status(t.Context(), "claude", "agent/claude", View{})
	require.NoError(t, err)
	require.Equal(t, 1, status.Conflicted)
	require.Empty(t, status.Branch)

	saved, err := w.Discard(t.Context(), "claude", "agent/claude")
	require.NoError(t, err)
	back, err := w.Restore(t.Context(), saved.Ref, "", "")
	require.NoError(t, err)
	require.Equal(t, want, picture(t, back.Path))
}

func TestNestedRepositoriesAreKept(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	tree, err := w.Add(t.Context(), "claude", "", "")
	require.NoError(t, err)
	as(t, nobody, tree.Path, "init", "-q", "vendored")
	write(t, tree.Path+"/vendored/code", "code")
	chown(t, tree.Path)
	saved, err := w.Discard(t.Context(), "claude", "")
	require.NoError(t, err)
	require.Equal(t, []string{"vendored"}, saved.Nested)
	kept, err := filepath.Glob(w.trashDir() + "/claude.*.nested/trees/0/code")
	require.NoError(t, err)
	require.Len(t, kept, 1)
}

func TestNothingOfTheAgentsRuns(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	tree, err := w.Add(t.Context(), "claude", "", "")
	require.NoError(t, err)
	canary := filepath.Join(tempDir(t), "canary")
	require.NoError(t, os.Chmod(filepath.Dir(canary), 0o777))
	script := filepath.Join(filepath.Dir(canary), "evil.sh")
	write(t, script, "#!/bin/sh\necho \"$0 $*\" >> "+canary+"\ncat\n")
	require.NoError(t, os.Chmod(script, 0o755))
	config := fmt.Sprintf("[core]\n\tfsmonitor = %[1]s\n\thooksPath = %[2]s\n\tsshCommand = %[1]s\n\tpager = %[1]s\n[filter \"evil\"]\n\tclean = %[1]s\n\tsmudge = %[1]s\n\tprocess = %[1]s\n\trequired = true\n[diff]\n\texternal = %[1]s\n[merge \"evil\"]\n\tdriver = %[1]s\n[extensions]\n\tworktreeConfig = true\n", script, filepath.Dir(script))
	for _, hook := range []string{"post-checkout", "pre-commit", "reference-transaction", "post-index-change", "post-rewrite"} {
		require.NoError(t, os.Symlink(script, filepath.Join(filepath.Dir(script), hook)))
	}
	write(t, tree.Path+"/.gitattributes", "* filter=evil diff=evil merge=evil\n")
	write(t, tree.Path+"/README", "changed\n")
	// All that an agent may write in the git directory.
	write(t, tree.GitDir+"/config.worktree", config)
	write(t, tree.GitDir+"/config", config)
	evil := filepath.Join(tempDir(t), "evil.git")
	as(t, 0, "/", "init", "-q", "--bare", evil)
	write(t, evil+"/config", config+"[core]\n\trepositoryformatversion = 0\n")
	write(t, tree.GitDir+"/commondir", evil+"\n")
	// A repository inside, with a configuration of its own.
	as(t, 0, tree.Path, "init", "-q", "nested")
	write(t, tree.Path+"/nested/.git/config", config)
	chown(t, tree.Path)
	chown(t, tree.GitDir)
	chown(t, evil)

	_, err = w.Status(t.Context(), "claude", "", View{})
	require.NoError(t, err)
	_, err = w.Uncommitted(t.Context(), "claude")
	require.NoError(t, err)
	saved, err := w.Save(t.Context(), "claude", SaveOptions{})
	require.NoError(t, err)
	require.NotEmpty(t, saved.Ref)
	_, err = w.Restore(t.Context(), saved.Ref, "other", "agent/other")
	require.NoError(t, err)
	_, err = w.Discard(t.Context(), "claude", "")
	require.NoError(t, err)
	require.NoFileExists(t, canary)
}

func TestForgedLinksLeadNowhere(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	tree, err := w.Add(t.Context(), "claude", "", "")
	require.NoError(t, err)
	other, err := w.Add(t.Context(), "gemini", "", "")
	require.NoError(t, err)
	write(t, other.Path+"/precious", "p")
	// The agent says its worktree is another's, and its index is a secret.
	write(t, tree.GitDir+"/gitdir", other.Path+"/.git\n")
	require.NoError(t, os.Remove(tree.GitDir+"/index"))
	require.NoError(t, os.Symlink("/etc/shadow", tree.GitDir+"/index"))
	_, err = w.Save(t.Context(), "claude", SaveOptions{})
	require.Error(t, err)
	require.NoError(t, os.Remove(tree.GitDir+"/index"))
	require.NoError(t, os.Remove(tree.Path+"/README"))
	require.NoError(t, os.Symlink(other.Path, tree.Path+"/README"))
	saved, err := w.Discard(t.Context(), "claude", "")
	require.NoError(t, err)
	require.NotEmpty(t, saved.Ref)
	require.FileExists(t, other.Path+"/precious")
	require.FileExists(t, other.Path+"/.git")
}

func TestWorkIsSeenBelowAView(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	tree, err := w.Add(t.Context(), "claude", "", "")
	require.NoError(t, err)
	write(t, tree.Path+"/below", "below\n")
	chown(t, tree.Path)
	root, err := os.Open(tree.Path)
	require.NoError(t, err)
	defer root.Close()
	require.NoError(t, unix.Mount("test", tree.Path, "tmpfs", 0, "size=1m"))
	covered := true
	t.Cleanup(func() {
		if covered {
			require.NoError(t, unix.Unmount(tree.Path, unix.MNT_DETACH))
		}
	})
	write(t, tree.Path+"/above", "above\n")
	for name, v := range map[string]View{"by name": {}, "by descriptor": {Root: root}} {
		status, err := w.Status(t.Context(), "claude", "", v)
		require.NoError(t, err, name)
		require.Equal(t, []string{"below"}, status.Paths, name)
		saved, err := w.Save(t.Context(), "claude", SaveOptions{View: v})
		require.NoError(t, err, name)
		require.Equal(t, []string{"below"}, saved.Paths, name)
	}
	paths, err := w.Uncommitted(t.Context(), "claude")
	require.NoError(t, err)
	require.Equal(t, []string{"below"}, paths)
	_, err = w.Add(t.Context(), "claude", "", "")
	require.Equal(t, api.CodeWorktreeFailed, api.CodeOf(err))
	require.Equal(t, "stop the agent first: polisctl agents stop claude; what a crash left, polisctl patrol run --once removes", api.AsError(err).Hint)
	require.Equal(t, api.CodeBadState, api.CodeOf(w.Remove(t.Context(), "claude")))
	_, err = w.Discard(t.Context(), "claude", "")
	require.Equal(t, api.CodeBadState, api.CodeOf(err))
	require.NoError(t, unix.Unmount(tree.Path, 0))
	covered = false
	require.NoFileExists(t, tree.Path+"/above")
	require.NoError(t, w.Remove(t.Context(), "claude"))
	require.NoError(t, w.Remove(t.Context(), "claude"))
}

func TestSyncFollowsTheProject(t *testing.T) {
	needRoot(t)
	repo := project(t)
	w := up(t, spec(t, repo))
	got, err := w.Sync(t.Context())
	require.NoError(t, err)
	require.False(t, got.Moved)
	write(t, repo+"/README", "two\n")
	as(t, 0, repo, "commit", "-qam", "two")
	got, err = w.Sync(t.Context())
	require.NoError(t, err)
	require.True(t, got.Moved)
	require.Equal(t, as(t, 0, repo, "rev-parse", "HEAD"), got.Commit)
	as(t, 0, repo, "commit", "--amend", "-qm", "two, otherwise")
	_, err = w.Sync(t.Context())
	require.Equal(t, api.CodeRefConflict, api.CodeOf(err))
	require.Contains(t, api.AsError(err).Hint, "refs/remotes/polis/main")
	as(t, 0, repo, "merge", "-q", "-m", "join", "refs/remotes/polis/main")
	got, err = w.Sync(t.Context())
	require.NoError(t, err)
	require.True(t, got.Moved)
}

func TestAnyFileNameSurvives(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	tree, err := w.Add(t.Context(), "claude", "", "")
	require.NoError(t, err)
	names := map[string]string{}
	rapid.Check(t, func(rt *rapid.T) {
		raw := rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(rt, "name")
		name := strings.NewReplacer("/", "_", "\x00", "_").Replace(string(raw))
		if name == "." || name == ".." || strings.HasPrefix(strings.ToLower(name), ".git") {
			return
		}
		names[name] = string(rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(rt, "data"))
		require.NoError(rt, os.WriteFile(filepath.Join(tree.Path, name), []byte(names[name]), 0o644))
	})
	chown(t, tree.Path)
	want := picture(t, tree.Path)
	saved, err := w.Discard(t.Context(), "claude", "")
	require.NoError(t, err)
	back, err := w.Restore(t.Context(), saved.Ref, "", "")
	require.NoError(t, err)
	require.Equal(t, want, picture(t, back.Path))
}

func TestAWorktreeIsKeptOnWhateverItHasCheckedOut(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	tree, err := w.Keep(t.Context(), "claude", "agent/claude", "")
	require.NoError(t, err, "one that is missing is made")
	chown(t, tree.Path)
	for _, checkout := range [][]string{{"--detach"}, {"-b", "side"}} {
		as(t, nobody, tree.Path, append([]string{"checkout", "-q"}, checkout...)...)
		want := picture(t, tree.Path)
		_, err = w.Add(t.Context(), "claude", "agent/claude", "")
		require.Equal(t, api.CodeWorktreeFailed, api.CodeOf(err), "a new agent does not get the work of an earlier one")
		kept, err := w.Keep(t.Context(), "claude", "agent/claude", "")
		require.NoError(t, err)
		require.Equal(t, tree.Path, kept.Path)
		require.Equal(t, want, picture(t, tree.Path))
	}
}
