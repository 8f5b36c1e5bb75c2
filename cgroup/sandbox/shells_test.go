package sandbox

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// shellPath is PATH after a shell has read the lines.
func shellPath(t require.TestingT, text, path string) string {
	cmd := exec.Command("/bin/sh", "-c", text+`printf %s "$PATH"`)
	cmd.Env = []string{"PATH=" + path}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", text, out)
	return string(out)
}

// Whatever a profile left, every directory is found, in the sandbox's order, and what
// the profile added of its own stays. A PATH that lacks nothing is left alone.
func TestEveryShellHasTheSandboxsPath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dirs := rapid.SliceOfNDistinct(rapid.StringMatching(`/[a-z '"$*\\]{1,3}`), 1, 4, rapid.ID)
		own, had := dirs.Draw(t, "own"), dirs.Draw(t, "had")
		got := strings.Split(shellPath(t, posixPath(strings.Join(own, ":")), strings.Join(had, ":")), ":")
		for _, dir := range append(own, had...) {
			require.Contains(t, got, dir)
		}
		lacks := false
		for _, dir := range own {
			lacks = lacks || !strings.Contains(":"+strings.Join(had, ":")+":", ":"+dir+":")
		}
		if lacks {
			require.Equal(t, own, got[:len(own)])
		} else {
			require.Equal(t, had, got)
		}
	})
	require.Equal(t, "/own:/bin", shellPath(t, posixPath("/own:/bin"), ""))
	require.Equal(t, "/venv/bin:/own:/bin", shellPath(t, posixPath("/own:/bin"), "/venv/bin:/own:/bin"))
}

func TestStartFilesKeepTheHostsText(t *testing.T) {
	c := Config{User: "agent", Home: "/home/agent", UID: 7, Env: []string{"PATH=/x'y:/bin"}}
	files, err := c.shellFiles()
	require.NoError(t, err)
	require.Contains(t, string(files["/etc/profile"]), `'/x'\''y'`)
	host, err := publicText("/etc/profile")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(files["/etc/profile"]), string(host)))
	_, err = publicText("/etc")
	require.Error(t, err)
	secret, err := publicText("/etc/shadow")
	require.NoError(t, err)
	require.Empty(t, secret, "the sandbox shows nothing that its user could not read")
}
