package outlinks

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
)

// Agents and the owner choose names, links and kinds of files in the project.
func TestFindReadsAnyTree(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	link := func(to, name string) { require.NoError(t, os.Symlink(to, filepath.Join(dir, name))) }
	for _, d := range []string{"venv/bin", "link-venv", "pipe-venv"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "venv/pyvenv.cfg"), nil, 0o644))
	require.NoError(t, os.MkdirAll(filepath.Join(outside, "bin"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(outside, "pyvenv.cfg"), nil, 0o644))
	require.NoError(t, os.Symlink("/opt/secret", filepath.Join(outside, "bin/of-others")))
	link("/opt/tool/bin/python3", "venv/bin/python")
	link("/opt/\xff\n", "odd\xff\n")
	link("/usr/bin/env", "seen")
	link("../"+filepath.Base(dir)+"/inside", "inside")
	link("../../../../../../../../opt/up", "up")
	link("loop", "loop")
	link("/proc/self/environ", "kernel")
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "link-venv")))
	link(outside, "link-venv")
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "pipe-venv/pyvenv.cfg"), 0o644))
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "pipe-venv/bin"), 0o644))

	top, err := os.Open(dir)
	require.NoError(t, err)
	defer top.Close()
	sees := func(p string) bool { return within("/usr", p) }
	links, err := Find(top, dir, sees)
	require.NoError(t, err)
	require.Equal(t, []Link{{"link-venv", outside}, {"odd\xff\n", "/opt/\xff\n"}, {"up", "/opt/up"}, {"venv/bin/python", "/opt/tool/bin/python3"}}, links,
		"what another directory has is not read through a link")
	require.Equal(t, `extra_mounts = [{ source = "/opt/tool/bin", dest = "/opt/tool/bin", read_only = true }]`, links[3].Setting())

	for i := range maxEntries + 10 {
		link("/opt/many", fmt.Sprintf("a%04d", i))
	}
	_, err = top.Seek(0, 0)
	require.NoError(t, err)
	links, err = Find(top, dir, sees)
	require.NoError(t, err)
	require.Len(t, links, maxLinks)
}

// Two workspaces have one list of mounts: a command for each would drop the mounts of the other.
func TestACheckOfLinksHasNoCommand(t *testing.T) {
	c := Check("shop", []Link{{"run", "/opt/tool/bin/run"}}, nil)
	require.Equal(t, api.CheckWarn, c.State)
	require.Contains(t, c.Fix, "only if every agent of this machine may read what they lead to")
	require.Empty(t, c.Command)
	require.Contains(t, c.NoCommand, "one for all projects")
	require.Empty(t, Check("shop", nil, nil).NoCommand)
}
