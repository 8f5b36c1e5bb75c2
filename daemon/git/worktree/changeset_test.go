package worktree

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"polis/daemon/git"
)

// treeProject is a project with directories, an executable, a symbolic link and ignore rules.
func treeProject(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(tempDir(t), "src")
	require.NoError(t, os.Mkdir(dir, 0o755))
	as(t, 0, dir, "init", "-q", "-b", "main")
	for _, name := range []string{"a", "b", "src/a", "src/b", "src/deep/er/a", "src/deep/er/b", "lib/a", "lib/b", "lib/in/a", "odd \x01\xff/new\nline", "src-2/a", "src.txt"} {
		write(t, filepath.Join(dir, name), "content of "+name+"\n")
	}
	require.NoError(t, os.Chmod(filepath.Join(dir, "lib/b"), 0o755))
	require.NoError(t, os.Symlink("../a", filepath.Join(dir, "lib/link")))
	write(t, filepath.Join(dir, ".gitignore"), "*.log\n/out/\n")
	write(t, filepath.Join(dir, "lib/.gitignore"), "ignored\n")
	as(t, 0, dir, "add", "-A")
	as(t, 0, dir, "commit", "-qm", "first")
	return dir
}

// listing makes every worktree with layers be read by its changes only.
func listing(t *testing.T) *Workspace {
	t.Helper()
	needRoot(t)
	s := spec(t, treeProject(t))
	up(t, s)
	w := Open(Config{Workspace: s.Workspace, UID: nobody, GID: nobody, Mounts: kernel{}, Shared: func() bool { return true }})
	w.minIndex = 0
	t.Cleanup(func() { require.NoError(t, w.DetachAll()) })
	return w
}

// overwrite writes a file, if it can be one.
func overwrite(path string, text []byte) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC|unix.O_NONBLOCK, 0o644) // it may be a pipe
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.Write(text) //nolint:errcheck // as above
}

// agentGit runs git in the files of a worktree. It may fail, as an agent's may.
func agentGit(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
		"GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@example.org", "GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@example.org"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// sameAnswers requires that git gives the same answers about the files of a worktree over what can
// differ as over all of it.
func sameAnswers(t require.TestingT, w *Workspace, agent string, asked ...string) {
	ctx := contextOf(t)
	set, err := w.changes(ctx, agent, View{})
	require.NoError(t, err)
	require.NotNil(t, set)
	answers := func() (list []string) {
		for _, what := range asked {
			switch what {
			case "status", "uncommitted":
				args := []string{"status", "--porcelain=v2", "-z", "--untracked-files=normal", "--no-renames", "--ignore-submodules=all"}
				if what == "uncommitted" {
					args[1], args[3] = "--porcelain=v1", "--untracked-files=all"
				}
				out, err := w.readFiles(ctx, agent, View{}, args...)
				require.NoError(t, err)
				fields := git.SplitNUL(out)
				slices.Sort(fields)
				list = append(list, fields...)
			case "diff":
				var out strings.Builder
				require.NoError(t, w.Diff(ctx, agent, DiffOptions{}, &out))
				list = append(list, out.String())
			default:
				list = append(list, savedChanges(t, w, agent, what == "ignored")...)
			}
		}
		return list
	}
	changes := answers()
	w.minIndex = 1 << 40
	defer func() { w.minIndex = 0 }()
	require.Equal(t, answers(), changes, "%q of %q", asked, set.paths)
}

// savedChanges are the tree of the index and the paths that Save stores.
func savedChanges(t require.TestingT, w *Workspace, agent string, ignored bool) []string {
	ctx := contextOf(t)
	tmp, err := w.scratch("save-")
	require.NoError(t, err)
	s := &saver{w: w, agent: agent, opt: SaveOptions{Ignored: ignored}, index: filepath.Join(tmp, "index")}
	s.set, err = w.changes(ctx, agent, View{})
	require.NoError(t, err)
	s.withoutConflicts()
	conflicted, err := s.copyIndex(ctx, "")
	require.NoError(t, err)
	changed, err := s.changed(ctx, conflicted)
	require.NoError(t, err)
	tree, err := s.writeTree(ctx)
	require.NoError(t, err)
	slices.Sort(changed)
	slices.Sort(s.out.Nested)
	require.NoError(t, os.RemoveAll(tmp))
	return []string{tree, fmt.Sprintf("%q %q", changed, s.out.Nested)}
}

// fresh makes a worktree as it was when it was added, and returns where its files are.
func fresh(t require.TestingT, w *Workspace, agent, commit string) string {
	ctx := contextOf(t)
	require.NoError(t, w.Detach(agent))
	for _, dir := range []string{w.tree(agent), w.layout().LayersWork(agent)} {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range entries {
			if e.Name() != ".git" {
				require.NoError(t, os.RemoveAll(filepath.Join(dir, e.Name())))
			}
		}
	}
	id, err := w.baseOf(agent)
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(w.admin(agent), "index")))
	require.NoError(t, w.copyBaseIndex(agent, w.bases.At(id).Index))
	require.NoError(t, os.WriteFile(filepath.Join(w.admin(agent), "HEAD"), []byte("ref: refs/heads/agent/"+agent+"\n"), 0o644))
	require.NoError(t, w.Bare().UpdateAll(ctx, map[string]string{git.Branch("agent/" + agent): commit}, "test"))
	dir, err := w.attach(ctx, agent)
	require.NoError(t, err)
	return dir
}

// Whatever an agent does, git over what can differ answers as over the whole worktree.
func TestGitOverChangesAnswersAsOverAllFiles(t *testing.T) {
	w := listing(t)
	const agent = "ann"
	_, err := w.Add(t.Context(), agent, "", "")
	require.NoError(t, err)
	commit := refOf(t, w, "agent/ann")
	rapid.Check(t, func(rt *rapid.T) {
		dir := fresh(rt, w, agent, commit)
		names := []string{"a", "b", "src", "src/a", "src/b", "src/deep", "src/deep/er", "src/deep/er/a", "lib", "lib/a", "lib/b", "lib/link", "lib/in", "lib/.gitignore", ".gitignore",
			"odd \x01\xff", "odd \x01\xff/new\nline", "src-2", "src.txt", "new", "new/in", "new/in/deep", "src/new", "src/new/x.log", "x.log", "out", "out/y", "src/out", "lib/ignored", ":(glob)*", "-x"}
		path := rapid.SampledFrom(names)
		for range rapid.IntRange(0, 12).Draw(rt, "changes") {
			p := path.Draw(rt, "path")
			at := filepath.Join(dir, p)
			switch op := rapid.SampledFrom([]string{"write", "write", "same", "remove", "remove all", "rename", "rename", "chmod", "link", "mkdir", "touch", "fifo", "repository",
				"add", "add all", "uncache", "commit", "reset", "intend", "unchanged", "ignore", "checkout", "stash"}).Draw(rt, "op"); op {
			case "write":
				_ = os.MkdirAll(filepath.Dir(at), 0o755) //nolint:errcheck // it may be a file
				overwrite(at, []byte(rapid.SampledFrom([]string{"x\n", "y\n"}).Draw(rt, "content")))
			case "same":
				if b, err := os.ReadFile(filepath.Join(dir, "..", "..", "..", "bases", baseID(t, w, agent), "tree", p)); err == nil {
					overwrite(at, b)
				}
			case "remove":
				_ = os.Remove(at) //nolint:errcheck // as above
			case "remove all":
				_ = os.RemoveAll(at) //nolint:errcheck // as above
			case "rename":
				_ = os.Rename(at, filepath.Join(dir, path.Draw(rt, "to"))) //nolint:errcheck // as above
			case "chmod":
				_ = os.Chmod(at, rapid.SampledFrom([]os.FileMode{0o644, 0o755}).Draw(rt, "mode")) //nolint:errcheck // as above
			case "link":
				_ = os.Symlink("a", at) //nolint:errcheck // as above
			case "mkdir":
				_ = os.MkdirAll(at, 0o755) //nolint:errcheck // as above
			case "touch":
				_ = os.Chtimes(at, time.Now(), time.Now().Add(time.Hour)) //nolint:errcheck // as above
			case "fifo":
				_ = unix.Mkfifo(at, 0o644) //nolint:errcheck // as above
			case "repository":
				_, _ = agentGit(dir, "init", "-q", at) //nolint:errcheck // as above
			case "ignore":
				_ = os.WriteFile(filepath.Join(dir, ".gitignore"), []byte(p+"\n"), 0o644) //nolint:errcheck // as above
			default:
				args := map[string][]string{"add": {"add", "--force", "--", p}, "add all": {"add", "-A"}, "uncache": {"rm", "-rq", "--cached", "--", p}, "commit": {"commit", "-qm", "work"},
					"reset": {"reset", "-q", "--soft", "HEAD~1"}, "intend": {"add", "-N", "--", p}, "unchanged": {"update-index", "--assume-unchanged", "--", p},
					"checkout": {"checkout", "-q", "main", "--", p}, "stash": {"stash", "-q"}}[op]
				_, _ = agentGit(dir, args...) //nolint:errcheck // as above
			}
		}
		for _, name := range []string{".gitignore", "lib/.gitignore"} { // what git would wait for
			if fi, err := os.Lstat(filepath.Join(dir, name)); err == nil && fi.Mode()&os.ModeNamedPipe != 0 {
				require.NoError(rt, os.Remove(filepath.Join(dir, name)))
			}
		}
		if rapid.Bool().Draw(rt, "refresh") {
			_, _ = agentGit(dir, "status") //nolint:errcheck // as above
		}
		sameAnswers(rt, w, agent, "status", "uncommitted", rapid.SampledFrom([]string{"diff", "save", "ignored"}).Draw(rt, "read"))
	})
}

// What git compares otherwise than by its entry in the index, or that polis does not understand, is
// read as a whole.
func TestAStrangeWorktreeIsReadAsAWhole(t *testing.T) {
	w := listing(t)
	for name, change := range map[string]func(dir, admin string){
		"attributes":       func(dir, _ string) { write(t, filepath.Join(dir, "src/.gitattributes"), "* text\n") },
		"an index of junk": func(_, admin string) { write(t, filepath.Join(admin, "index"), "DIRC") },
		"a split index": func(dir, _ string) {
			_, err := agentGit(dir, "update-index", "--split-index")
			require.NoError(t, err)
		},
		"no HEAD": func(_, admin string) { write(t, filepath.Join(admin, "HEAD"), "ref: refs/heads/none\n") },
		"many changes": func(dir, _ string) {
			for i := range maxChanges + 1 {
				write(t, filepath.Join(dir, fmt.Sprintf("new%d", i)), "")
			}
		},
	} {
		agent := "ann"
		_, err := w.Add(t.Context(), agent, "", "main")
		require.NoError(t, err)
		dir, err := w.attach(t.Context(), agent)
		require.NoError(t, err)
		set, err := w.changes(t.Context(), agent, View{})
		require.NoError(t, err)
		require.NotNil(t, set, name)
		require.Empty(t, set.paths)
		change(dir, w.admin(agent))
		set, err = w.changes(t.Context(), agent, View{})
		require.NoError(t, err)
		require.Nil(t, set, name)
		require.NoError(t, w.Remove(t.Context(), agent))
		require.NoError(t, w.Bare().Delete(t.Context(), "refs/heads/agent/ann", refOf(t, w, "agent/ann")))
	}
}

// A file that changed in the second in which the index was written, and kept its size, is saved: git
// finds that by the time of the index.
func TestAChangeInTheSecondOfTheIndexIsSaved(t *testing.T) {
	for _, layered := range []bool{false, true} {
		w := listing(t)
		w.cfg.Shared = func() bool { return layered }
		_, err := w.Add(t.Context(), "ann", "", "")
		require.NoError(t, err)
		dir, err := w.attach(t.Context(), "ann")
		require.NoError(t, err)
		if !layered {
			dir = w.tree("ann")
		}
		file := filepath.Join(dir, "new")
		for range 10 {
			write(t, file, "old\n")
			_, err = agentGit(dir, "add", "new")
			require.NoError(t, err)
			before, err := os.Stat(file)
			require.NoError(t, err)
			write(t, file, "now\n")
			after, err := os.Stat(file)
			require.NoError(t, err)
			index, err := os.Stat(filepath.Join(w.admin("ann"), "index"))
			require.NoError(t, err)
			if s := before.ModTime().Unix(); after.ModTime().Unix() == s && index.ModTime().Unix() == s {
				break
			}
		}
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(1010 * time.Millisecond)))
		saved, err := w.Save(t.Context(), "ann", SaveOptions{})
		require.NoError(t, err)
		require.Equal(t, "now", as(t, nobody, w.internalDir(), "--git-dir", w.internalDir(), "show", saved.Commit+":new"), "layers: %v", layered)
	}
}

func contextOf(t require.TestingT) context.Context {
	if c, ok := t.(interface{ Context() context.Context }); ok {
		return c.Context()
	}
	return context.Background()
}

func refOf(t *testing.T, w *Workspace, branch string) string {
	t.Helper()
	id, err := w.Bare().Ref(t.Context(), git.Branch(branch))
	require.NoError(t, err)
	return id
}

func baseID(t *testing.T, w *Workspace, agent string) string {
	t.Helper()
	id, err := w.baseOf(agent)
	require.NoError(t, err)
	return id
}
