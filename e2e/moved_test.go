package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAnAgentThatMovesItsProjectAwayStarts: the project is below a directory that the agent writes to. While it is mounted,
// the directory above can be renamed; a link in its place must neither lead a mount elsewhere nor keep the agent from
// starting, and is kept.
func TestAnAgentThatMovesItsProjectAwayStarts(t *testing.T) {
	d := startDaemon(t, options{})
	top, err := os.MkdirTemp("/var/tmp", "polis-e2e-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(top)) })
	require.NoError(t, os.Chmod(top, 0o755))
	repo := filepath.Join(top, "deep", "src")
	require.NoError(t, os.Mkdir(filepath.Dir(repo), 0o755))
	require.NoError(t, os.Rename(d.smallRepo(), repo))
	d.must("up", "--repo", repo, d.path("ws"))
	d.add("mallory", "--temp", "--read", "**", "--write", "**")
	restart := func() {
		t.Helper()
		d.must("agents", "stop", "mallory")
		d.must("agents", "start", "mallory")
		require.Equal(t, "one\n", d.sh("mallory", "head -n 1 main.txt"))
	}
	d.sh("mallory", "echo work > new.txt")
	for _, script := range []string{
		`mv deep moved1 && ln -s /usr deep`,
		`mv deep moved2 && ln -s deep deep`,
		`mv deep moved3 && echo mine > deep`,
		`mkdir next && ln -s /etc next/src && mv deep moved4 && mv next deep`,
		`chmod 0 deep .`,
	} {
		d.sh("mallory", "cd "+top+" && "+script)
		restart()
		require.Equal(t, "work\n", d.sh("mallory", "cat new.txt"), script)
	}
	d.sh("mallory", "chmod 755 "+top+" "+top+"/deep")
	require.Equal(t, "mine\n", d.sh("mallory", "cd "+top+"; for f in deep.polis-old*; do test ! -f $f || cat $f; done"))
	require.Equal(t, "/etc /usr deep\n", d.sh("mallory", "cd "+top+" && find . -maxdepth 2 -name '*.polis-old*' -type l -printf '%l\\n' | sort | xargs"), "what was in the way is kept")
}
