package e2e

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/sys/mountinfo"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
)

func mkdir(t *testing.T, parts ...string) string {
	dir := filepath.Join(parts...)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	return dir
}

func (d *daemon) mountSnapshot(id string, args ...string) (m api.SnapshotMount) {
	d.t.Helper()
	require.NoError(d.t, json.Unmarshal([]byte(d.must(append([]string{"--json", "snapshot", "mount", id}, args...)...)), &m))
	return m
}

// snapshotMounts returns the mounts of snapshots of this daemon's agents.
func (d *daemon) snapshotMounts() (at []string) {
	d.t.Helper()
	all, err := mountinfo.GetMounts(nil)
	require.NoError(d.t, err)
	for _, m := range all {
		if m.FSType == "fuse.polis-snapshot" && strings.Contains(m.Source, d.path("run")) {
			at = append(at, m.Mountpoint)
		}
	}
	return at
}

// TestAMountedSnapshot has the files as they were, whatever the agent does; nothing can be changed in it, and
// it survives a crash of polisd. It ends with its agent.
func TestAMountedSnapshot(t *testing.T) {
	d := startDaemon(t, options{config: "[snapshots]\nkeep = 2\n"})
	d.up()
	d.add("first")
	d.sh("first", "mkdir -p sub/empty; echo secret > sub/file; ln -s ../main.txt sub/link; chmod 600 sub/file")
	s := d.snapshot("first")
	m := d.mountSnapshot(s.ID)
	d.sh("first", "echo other > main.txt; rm -r sub")

	read := func(path string) string { return readFile(filepath.Join(m.At, path)) }
	require.Equal(t, "secret\n", read("sub/file"))
	require.Equal(t, "one\ntwo\nthree\n", read("sub/link"))
	require.DirExists(t, filepath.Join(m.At, "sub/empty"))
	require.NoDirExists(t, filepath.Join(m.At, ".git"))
	require.ErrorIs(t, os.WriteFile(filepath.Join(m.At, "main.txt"), nil, 0o644), unix.EROFS)
	require.ErrorIs(t, os.Remove(filepath.Join(m.At, "main.txt")), unix.EROFS)
	fi, err := os.Stat(m.At)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o750), fi.Mode().Perm(), "not for other users of the host")
	require.Contains(t, d.must("snapshot", "show", s.ID), m.At)
	require.NotContains(t, d.sh("first", "ls -A /run /run/polis; cat /proc/mounts"), "polis-snapshot")

	d.must("checkpoint", "first")
	at := mkdir(t, t.TempDir(), "evil")
	two := d.mountSnapshot("first", "--at", at)
	require.Equal(t, at, two.At)
	require.NotEqual(t, s.ID, two.ID, "the last one of the agent is a checkpoint")
	require.NoFileExists(t, filepath.Join(at, "sub/file"))
	open, err := os.Open(filepath.Join(m.At, "sub/file"))
	require.NoError(t, err)
	defer open.Close()
	require.Error(t, d.signal(syscall.SIGKILL))
	b, err := io.ReadAll(open)
	require.NoError(t, err)
	require.Equal(t, "secret\n", string(b), "without polisd")
	d.start()
	require.Contains(t, d.must("snapshot", "show", s.ID), m.At)
	for range 4 { // more checkpoints than are kept
		d.sh("first", "date +%N > n")
		d.must("checkpoint", "first")
	}
	require.Equal(t, "other\n", readFile(filepath.Join(at, "main.txt")))
	d.must("gc")
	require.Contains(t, d.must("snapshot", "verify", two.ID), "is intact", "what was mounted is kept")

	require.NoError(t, unix.Unmount(at, 0), "by another program")
	d.eventually("it is gone", func() bool { return d.ctl("snapshot", "umount", two.ID).code == 3 })
	require.DirExists(t, at)
	d.must("snapshot", "mount", two.ID, "--at", at)
	d.must("snapshot", "umount", s.ID) // also if it is in use
	require.NoDirExists(t, m.At)
	d.must("snapshot", "rm", two.ID)
	require.Empty(t, d.snapshotMounts())
	require.NoError(t, open.Close())

	for range 10 { // one that is unmounted can be mounted again at once
		d.must("snapshot", "mount", s.ID)
		d.must("snapshot", "umount", s.ID)
	}
	d.must("snapshot", "mount", s.ID)
	d.must("agents", "remove", "first", "--force")
	require.Empty(t, d.snapshotMounts())
}

// TestADamagedSnapshotThatIsMounted gives an error, and never other bytes.
func TestADamagedSnapshotThatIsMounted(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("first")
	s := d.snapshot("first")
	m := d.mountSnapshot(s.ID)
	d.damage(s.ID, "src/a.txt")
	_, err := os.ReadFile(filepath.Join(m.At, "src/a.txt"))
	require.ErrorIs(t, err, unix.EIO)
	require.Equal(t, "one\ntwo\nthree\n", readFile(filepath.Join(m.At, "main.txt")))
	d.must("snapshot", "umount", s.ID)
}

// TestMountsOfAShimThatWasKilled go with the next start of the agent, and with down, wherever they are.
func TestMountsOfAShimThatWasKilled(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("first")
	s := d.snapshot("first")
	above := filepath.Join(t.TempDir(), "evil")
	d.mountSnapshot(s.ID, "--at", mkdir(t, above, "proc"))
	// Its owner moves the directory, and leaves a link in its place that leads to another mount.
	require.NoError(t, os.Rename(above, above+".moved"))
	require.NoError(t, os.Symlink("/", above))
	for _, pid := range d.shimPIDs() {
		require.NoError(t, unix.Kill(pid, unix.SIGKILL))
	}
	d.eventually("the agent is up again, without the mount", func() bool {
		return len(d.snapshotMounts()) == 0 && d.ctl("agents", "start", "first").code == 0
	})
	require.FileExists(t, "/proc/self/status", "what the link leads to stays mounted")
	d.mountSnapshot(s.ID)
	d.refused(api.CodeBadRequest, "snapshot", "mount", s.ID, "--at", d.path("ws"))
	d.must("down", "--force")
	require.Empty(t, d.snapshotMounts())
}
