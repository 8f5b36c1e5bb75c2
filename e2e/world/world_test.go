package world_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/e2e/world"
	"polis/internal/need"
)

func TestTheMachineIsWhatItSays(t *testing.T) {
	need.Root(t)
	dir, err := os.MkdirTemp("/tmp", "polis-world-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, exec.Command("rm", "-rf", dir).Run()) })
	require.NoError(t, os.Chmod(dir, 0o755))
	began := time.Now()
	w, err := world.Make(t.Context(), dir, os.Getenv("POLIS_E2E_GIT_LFS"))
	require.NoError(t, err)
	t.Logf("%s, in %v", w.LFS, time.Since(began))

	run := func(script string) string {
		t.Helper()
		out, err := w.Command(t.Context(), w.Project, "bash", "-ec", script).CombinedOutput()
		require.NoError(t, err, "%s: %s", script, out)
		return strings.TrimSpace(string(out))
	}
	require.Equal(t, world.Identity, run(`git var GIT_AUTHOR_IDENT | sed 's/ [0-9]* [+-][0-9]*$//'`))
	require.Equal(t, world.Private, run(`git init -q /tmp/polis-world-$$ && cd /tmp/polis-world-$$ && git var GIT_AUTHOR_IDENT | sed 's/ [0-9]* [+-][0-9]*$//'; rm -rf /tmp/polis-world-$$`))
	require.Contains(t, run("id"), "(polis)")
	require.Empty(t, run("git status --porcelain"))
	require.Contains(t, run("git verify-commit HEAD 2>&1; git verify-tag v1.0 2>&1"), `Good "git" signature for ann@corp.example`)
	require.Equal(t, strings.TrimSpace(world.LFSContent), run("cat assets/model.bin; git show HEAD:assets/model.bin | grep -q ^oid"))
	require.Equal(t, "feature/search main release/1.0 v1.0 v1.1", run("git -C "+w.Remote+" for-each-ref --format='%(refname:short)' | xargs"))
	require.Equal(t, "body {}", run("cat vendor/theme/theme.css"))
	require.Equal(t, "interpreter python3", run(".venv/bin/python3"))
	require.Equal(t, "600", run("stat -c %a main.txt"))
	out, err := w.Command(t.Context(), w.Project, "sh", "-c", "echo AKIA > k; git add k; git commit -qm k").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "a secret is in the commit")

	real, err := filepath.EvalSymlinks(w.Project)
	require.NoError(t, err)
	require.Equal(t, w.Real, real)
	require.NotEqual(t, w.Project, real)
	passwd, err := os.ReadFile("/etc/passwd")
	require.NoError(t, err)
	require.NotContains(t, string(passwd), world.User)
}
