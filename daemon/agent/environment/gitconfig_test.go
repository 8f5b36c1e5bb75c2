package environment

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/agent"
	"polis/daemon/config"
)

// Whatever is configured, git reads it back as it was and reads nothing else.
func TestGitConfigIsReadBackByGit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	get := func(rt *rapid.T, key string) string {
		out, err := exec.CommandContext(t.Context(), "git", "config", "--null", "--file", file, "--get", key).Output()
		require.NoError(rt, err, key)
		return strings.TrimSuffix(string(out), "\x00")
	}
	text := rapid.StringOfN(rapid.RuneFrom([]rune("ab \\\"'#;=[]\t%$é")), 1, 20, -1)
	rapid.Check(t, func(rt *rapid.T) {
		id := config.Identity{Name: text.Draw(rt, "name"), Email: text.Draw(rt, "email")}
		r := agent.Remote{Name: rapid.StringMatching(`[a-z][a-z0-9./_-]{0,10}`).Draw(rt, "remote"), URL: text.Draw(rt, "url")}
		require.NoError(rt, os.WriteFile(file, []byte(gitConfig(id, []agent.Remote{r}, "", "")), 0o644))
		for _, who := range []string{"user", "author", "committer"} {
			require.Equal(rt, id.Name, get(rt, who+".name"))
			require.Equal(rt, id.Email, get(rt, who+".email"))
		}
		require.Equal(rt, r.URL, get(rt, "remote."+r.Name+".url"))
		require.Equal(rt, "polis", get(rt, "remote."+r.Name+".vcs"))
		out, err := exec.CommandContext(t.Context(), "git", "config", "--file", file, "--name-only", "--null", "--list").Output()
		require.NoError(rt, err)
		require.Equal(rt, 9, strings.Count(string(out), "\x00"))
	})
}
