package merge

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

	"polis/internal/need"
)

// TestASharedRepositoryStaysShared compares the modes and the groups after a merge of polis with those after git merge by the owner.
func TestASharedRepositoryStaysShared(t *testing.T) {
	need.Root(t)
	const owner, group = 4473, 4474
	run := func(dir, umask, script string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", "umask "+umask+"; "+script)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@x", "GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@x"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner, Gid: owner, Groups: []uint32{group}}}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", script, out)
	}
	for _, c := range []struct{ shared, umask string }{{"group", "077"}, {"all", "027"}, {"0640", "022"}, {"0660", "002"}, {"umask", "027"}} {
		t.Run(c.shared, func(t *testing.T) {
			dir := tempDir(t)
			src, twin := filepath.Join(dir, "src"), filepath.Join(dir, "twin")
			require.NoError(t, os.Mkdir(src, 0o700))
			require.NoError(t, os.Chown(src, owner, group))
			require.NoError(t, os.Chmod(src, 0o770|fs.ModeSetgid))
			run(src, c.umask, "git init -q -b main --shared="+c.shared+"; mkdir old; echo one > file; echo one > old/file; git add .; git commit -qm first")
			f := workspaceOf(t, src)
			tree := f.work(t, "one", "file", "two\n")
			require.NoError(t, os.MkdirAll(filepath.Join(tree.Path, "new/deep"), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(tree.Path, "new/deep/file"), []byte("new\n"), 0o644))
			require.NoError(t, os.WriteFile(filepath.Join(tree.Path, "old/run"), []byte("#!/bin/sh\n"), 0o755))
			require.NoError(t, exec.CommandContext(t.Context(), "chown", "-R", fmt.Sprint(nobody), tree.Path).Run())
			as(t, nobody, tree.Path, "add", "-A")
			as(t, nobody, tree.Path, "commit", "-qm", "more")

			require.NoError(t, exec.CommandContext(t.Context(), "cp", "-a", src, twin).Run())
			bundle := filepath.Join(dir, "bundle")
			as(t, nobody, tree.Path, "bundle", "create", "-q", "/tmp/"+filepath.Base(filepath.Dir(dir))+".bundle", "agent/one")
			require.NoError(t, os.Rename("/tmp/"+filepath.Base(filepath.Dir(dir))+".bundle", bundle))
			require.NoError(t, os.Chmod(bundle, 0o644))
			run(twin, c.umask, "git fetch -q ../bundle agent/one:refs/remotes/polis/main; git merge -q --no-ff -m m refs/remotes/polis/main")

			_, err := f.Merge(t.Context(), Request{Agent: "one", Branch: "agent/one"})
			require.NoError(t, err)
			updated, err := f.UpdateCheckout(t.Context())
			require.NoError(t, err)
			require.True(t, updated.Updated, "%+v", updated)
			require.Equal(t, modesBelow(t, twin), modesBelow(t, src))
			wantFiles, wantGroups := gitFiles(t, twin)
			files, groups := gitFiles(t, src)
			require.Equal(t, wantFiles, files)
			require.Equal(t, wantGroups, groups)
		})
	}
}

// modesBelow are the modes and groups of a working tree.
func modesBelow(t *testing.T, top string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-ec", `cd "$0"; find . -path ./.git -prune -o -printf '%P %m %g\n' | sort`, top).Output()
	require.NoError(t, err)
	return string(out)
}

// gitFiles are the different modes and groups that objects, refs and logs have, with the type.
func gitFiles(t *testing.T, top string) (modes, groups string) {
	t.Helper()
	for to, format := range map[*string]string{&modes: "%y %m", &groups: "%y %g"} {
		out, err := exec.CommandContext(t.Context(), "sh", "-ec", `cd "$0/.git"; find objects refs index logs -printf "$1\n" | sort -u`, top, format).Output()
		require.NoError(t, err)
		*to = strings.TrimSpace(string(out))
	}
	return modes, groups
}
