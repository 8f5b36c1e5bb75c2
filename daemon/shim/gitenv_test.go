package shim

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api/wire"
)

// What polis says to git holds in the agent's worktree and in those that the agent adds, whatever the agent's
// own configuration says, and in no other repository: not in that of a submodule.
func TestGitEnvHoldsInTheAgentsWorktreesOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "odd [a] * dir")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	conf := filepath.Join(dir, "conf")
	require.NoError(t, os.WriteFile(conf, []byte("[user]\n\tname = Robot\n\temail = r@example.org\n"), 0o644))
	run := func(at string, env []string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir, cmd.Env = at, append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}, env...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "git %v: %s", args, out)
		return strings.TrimSpace(string(out))
	}
	bare, tree, other := filepath.Join(dir, "bare.git"), filepath.Join(dir, "tree"), filepath.Join(dir, "other")
	run(dir, nil, "init", "-q", "-b", "main", other)
	run(other, nil, "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "--allow-empty", "-m", "x")
	run(dir, nil, "clone", "-q", "--bare", other, bare)
	run(bare, nil, "worktree", "add", "-q", "-b", "mine", tree, "main")
	run(bare, nil, "worktree", "add", "-q", "-b", "sub", filepath.Join(dir, "nested"), "main")
	require.NoError(t, os.MkdirAll(filepath.Join(bare, "worktrees", "tree", "modules"), 0o755))
	run(dir, nil, "init", "-q", "--separate-git-dir", filepath.Join(bare, "worktrees", "tree", "modules", "lib"), filepath.Join(dir, "lib"))
	run(other, nil, "config", "user.name", "Test")
	run(bare, nil, "config", "user.name", "Own")

	s := &Shim{Spec: wire.Spec{Agent: "tree", BareRepo: bare, GitConfig: "x", Home: "/h", Env: []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=base.type", "GIT_CONFIG_VALUE_0=kept"}}}
	var env []string
	for _, e := range s.env([]string{"A=b"}, false) {
		if strings.HasPrefix(e, "GIT_") {
			env = append(env, strings.Replace(e, "="+gitConfigFile, "="+conf, 1))
		}
	}
	require.Equal(t, "Robot", run(tree, env, "config", "user.name"))
	require.Equal(t, "kept", run(tree, env, "config", "base.type"))
	require.Equal(t, "Test", run(other, env, "config", "user.name"))
	require.Equal(t, "Robot", run(filepath.Join(dir, "nested"), env, "config", "user.name"))
	require.Equal(t, "Own", run(filepath.Join(dir, "nested"), nil, "config", "user.name"))
	require.Equal(t, "Own", run(bare, env, "config", "user.name"))
	run(filepath.Join(dir, "lib"), nil, "config", "user.name", "Lib")
	require.Equal(t, "Lib", run(filepath.Join(dir, "lib"), env, "config", "user.name"))
	require.Equal(t, "Own", run(tree, nil, "config", "user.name"))
	run(tree, env, "commit", "-q", "--allow-empty", "-m", "y")
	require.Equal(t, "Robot <r@example.org> Robot <r@example.org>", run(tree, nil, "log", "-1", "--format=%an <%ae> %cn <%ce>"))

	s.Spec.GitConfig = ""
	require.NotContains(t, strings.Join(s.env(nil, false), "\n"), "includeIf")
}
