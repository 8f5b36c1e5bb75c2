//go:build seccomp

package sandbox

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/require"
)

// The process that makes the sandbox serves the file system it works in, as in
// polis-shim: neither may wait for the other.
func TestViewServedByTheSameProcess(t *testing.T) {
	cfg := testConfig(t)
	below, view := t.TempDir(), t.TempDir()
	require.NoError(t, os.Chown(below, testUID, testGID))
	root, err := fs.NewLoopbackRoot(below)
	require.NoError(t, err)
	server, err := fs.Mount(view, root, &fs.Options{MountOptions: fuse.MountOptions{AllowOther: true, Options: []string{"default_permissions"}}})
	require.NoError(t, err)
	var once sync.Once
	unmount := func() { once.Do(func() { require.NoError(t, server.Unmount()) }) }
	defer unmount()

	cfg.Mounts = []Mount{{Source: view, Dest: "/home/agent/project"}, {Source: view, Dest: "/srv/ws/.polis/worktrees/claude"}}
	cfg.Workdir = "/home/agent/project"
	s, err := Create(t.Context(), cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Destroy(t.Context())) }()

	sh(t, s, "for i in $(seq 50); do echo $i > file$i; done; mkdir d && mv file1 d/ && ls > /dev/null")
	require.Equal(t, "50", sh(t, s, "cat /srv/ws/.polis/worktrees/claude/file50"))
	require.FileExists(t, filepath.Join(below, "d/file1"))
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 5 {
				if out, code := run(t, s, "/bin/sh", "-c", "cat file* | wc -l"); out != "49" || code != 0 {
					t.Errorf("%q, %d", out, code)
				}
			}
		}()
	}
	wg.Wait()
	// A process works in it while the sandbox is destroyed, and nothing holds the view then.
	_, err = s.Start(Process{Args: []string{"/bin/sh", "-c", "exec 3>held; while :; do echo x >&3; done"}})
	require.NoError(t, err)
	require.NoError(t, s.Destroy(t.Context()))
	unmount()
}
