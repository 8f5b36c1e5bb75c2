package merge

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/merge/gate"
)

// everything lists names, kinds and contents of a checkout.
func everything(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		require.NoError(t, err)
		name := strings.TrimPrefix(path, dir)
		switch {
		case name == "/.git":
			return filepath.SkipDir
		case d.Type().IsRegular():
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			fi, err := d.Info()
			require.NoError(t, err)
			out[name] = fi.Mode().String() + " " + string(b)
		case d.Type()&os.ModeSymlink != 0:
			to, err := os.Readlink(path)
			require.NoError(t, err)
			out[name] = "-> " + to
		default:
			out[name] = d.Type().String()
		}
		return nil
	}))
	return out
}

// TestACheckoutIsBroughtAlongWholeOrNotAtAll: git checks out what it can and
// stops at what it cannot. The user's checkout is then as it was.
func TestACheckoutIsBroughtAlongWholeOrNotAtAll(t *testing.T) {
	for name, attributes := range map[string]string{"plain": "", "line endings": "* text eol=crlf\n"} {
		t.Run(name, func(t *testing.T) {
			f := setup(t)
			write := func(dir, name, text string) {
				path := filepath.Join(dir, name)
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
				require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
			}
			for _, n := range []string{"gone", "kept", "sealed/old", "turns/into/a/file", "turn2", "mode"} {
				write(f.project, n, n+"\n")
			}
			if attributes != "" {
				write(f.project, ".gitattributes", attributes)
			}
			require.NoError(t, os.Symlink("kept", f.project+"/link"))
			as(t, 0, f.project, "add", "-A")
			as(t, 0, f.project, "commit", "-qm", "more")
			// root may write everywhere: the project is another's.
			require.NoError(t, exec.Command("chown", "-R", "65534:65534", f.project).Run())
			f.recordAgain(t)
			as(t, nobody, f.project, "checkout", "-q", "-f", "HEAD")
			_, err := f.Workspace.Sync(t.Context())
			require.NoError(t, err)
			tree := f.work(t, "alice", "new", "new\n")
			sh(t, tree.Path, `rm gone; echo changed > file; mkdir -p a/b/c; echo x > a/b/c/x; echo y > a/b/y; echo z > sealed/z; rm -r turns turn2
echo f > turns; mkdir turn2; echo g > turn2/g; chmod +x mode; ln -sf gone link; ln -s a newlink; echo more > zz-last
git add -A; git commit -qm work`)
			res, err := f.merge(t, "alice")
			require.NoError(t, err)
			write(f.project, "mine/untracked", "mine\n")
			require.NoError(t, exec.Command("chown", "-R", "65534:65534", f.project+"/mine").Run())
			require.NoError(t, os.Chmod(f.project+"/sealed", 0o555))
			before, head := everything(t, f.project), as(t, nobody, f.project, "rev-parse", "HEAD")

			// What git itself leaves behind: without this the test shows nothing.
			p, err := f.Workspace.Project(t.Context())
			require.NoError(t, err)
			require.NoError(t, f.Workspace.Publish(t.Context(), p, "main", res.Commit, head))
			copied := filepath.Join(tempDir(t), "copy")
			require.NoError(t, exec.Command("cp", "-a", f.project, copied).Run())
			cmd := exec.Command("git", "-c", "safe.directory=*", "-c", "core.hooksPath=/dev/null", "merge", "-q", "--ff-only", res.Commit)
			cmd.Dir, cmd.Env = copied, []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent"}
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
			require.Error(t, cmd.Run())
			require.NotEqual(t, before, everything(t, copied), "git leaves half of it")

			a, err := f.UpdateCheckout(t.Context())
			require.NoError(t, err)
			require.False(t, a.Updated)
			require.Contains(t, a.Reason, "is as before")
			require.Contains(t, a.Command, "merge --ff-only")
			require.Equal(t, before, everything(t, f.project))
			require.Equal(t, head, as(t, nobody, f.project, "rev-parse", "HEAD"))
			require.Equal(t, "?? mine/untracked", as(t, nobody, f.project, "status", "--porcelain", "-uall"))

			require.NoError(t, os.Chmod(f.project+"/sealed", 0o755))
			a, err = f.UpdateCheckout(t.Context())
			require.NoError(t, err)
			require.True(t, a.Updated, a.Reason)
			require.Equal(t, "?? mine/untracked", as(t, nobody, f.project, "status", "--porcelain", "-uall"))
			require.Equal(t, res.Commit, as(t, nobody, f.project, "rev-parse", "HEAD"))
		})
	}
}

// What is the user's is not rolled back, also where git has begun to write.
func TestRollbackLeavesWhatIsNotFromTheMerge(t *testing.T) {
	f := setup(t)
	require.NoError(t, os.WriteFile(f.project+"/turns", []byte("a file\n"), 0o644))
	as(t, 0, f.project, "add", "turns")
	as(t, 0, f.project, "commit", "-qm", "second")
	_, err := f.Workspace.Sync(t.Context())
	require.NoError(t, err)
	tree := f.work(t, "alice", "new", "new\n")
	sh(t, tree.Path, "echo changed > file; rm turns; mkdir turns; echo x > turns/x; git add -A; git commit -qm work")
	_, err = f.merge(t, "alice")
	require.NoError(t, err)
	p, err := f.Workspace.Project(t.Context())
	require.NoError(t, err)
	from, to := as(t, 0, f.project, "rev-parse", "main"), as(t, nobody, tree.Path, "rev-parse", "main")
	changes, err := changesOf(t.Context(), f.Workspace.Bare(), from, to)
	require.NoError(t, err)
	require.NoError(t, f.Workspace.Publish(t.Context(), p, "main", to, from))
	dir, err := p.Open()
	require.NoError(t, err)
	defer dir.Close()
	was, err := remember(p, dir, &conversions{}, changes)
	require.NoError(t, err)
	untouched := everything(t, f.project)
	left, err := was.undo(t.Context())
	require.NoError(t, err)
	require.Empty(t, left)
	require.Equal(t, untouched, everything(t, f.project), "git had written nothing")
	require.NoError(t, os.WriteFile(f.project+"/new", []byte("the user's\n"), 0o644))
	require.NoError(t, os.WriteFile(f.project+"/file", []byte("the user's, too\n"), 0o644))
	left, err = was.undo(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"file", "new"}, left)
	require.Equal(t, "?? new", strings.TrimPrefix(as(t, 0, f.project, "status", "--porcelain"), " M file\n"))
	// It can be larger than the memory, or block its reader.
	root, err := os.OpenRoot(f.project)
	require.NoError(t, err)
	defer root.Close()
	added := changes[slices.IndexFunc(changes, func(c gate.Change) bool { return c.Path == "new" })]
	require.NoError(t, os.Truncate(f.project+"/new", 1<<40))
	require.False(t, was.begins(t.Context(), root, added))
	require.NoError(t, os.Truncate(f.project+"/file", 1<<40))
	left, err = was.undo(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"file", "new"}, left, "neither is read")
	require.NoError(t, os.WriteFile(f.project+"/file", []byte("changed\n"), 0o644))
	require.NoError(t, os.Remove(f.project+"/new"))
	require.NoError(t, syscall.Mkfifo(f.project+"/new", 0o644))
	require.False(t, was.begins(t.Context(), root, added))
	require.NoError(t, os.Remove(f.project+"/new"))
	// Of what git has written only the beginning is there: a full disk.
	require.NoError(t, os.WriteFile(f.project+"/new", []byte("ne"), 0o644))
	require.NoError(t, os.WriteFile(f.project+"/file", []byte("chan"), 0o644))
	left, err = was.undo(t.Context())
	require.NoError(t, err)
	require.Empty(t, left)
	require.Empty(t, as(t, 0, f.project, "status", "--porcelain"))
}

// sh runs a script as the agents' user.
func sh(t *testing.T, dir, script string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@example.org", "GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@example.org"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
