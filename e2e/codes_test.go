package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// brokenShims makes a directory of programs whose polis-shim first damages what the file mode
// names.
func brokenShims(t *testing.T) (mode string) {
	t.Helper()
	real := bin(t)
	dir, err := os.MkdirTemp("/tmp", "polis-bin-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, p := range []string{"polisd", "polisctl"} {
		require.NoError(t, os.Symlink(filepath.Join(real, p), filepath.Join(dir, p)))
	}
	mode = filepath.Join(dir, "mode")
	script := fmt.Sprintf(`#!/bin/sh
shim=%q
case "$*" in *cleanup*) exec "$shim" "$@" ;; esac
case "$(cat %q 2>/dev/null)" in
die) exit 1 ;;
nofuse) exec unshare -m sh -c 'mount --bind /dev/null /dev/fuse && exec "$0" "$@"' "$shim" "$@" ;;
nocgroup) exec unshare -m sh -c 'for m in $(grep -o " /sys/fs/cgroup[^ ]* cgroup" /proc/self/mounts | cut -d" " -f2); do mount -o remount,bind,ro "$m" || exit 9; done; exec "$0" "$@"' "$shim" "$@" ;;
esac
exec "$shim" "$@"
`, filepath.Join(real, "polis-shim"), mode)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "polis-shim"), []byte(script), 0o755))
	t.Setenv("POLIS_BIN", dir)
	return mode
}

// TestAddReportsWhichPartFailed damages the parts of a sandbox one by one. Each failure has its
// code, and nothing of the agent remains.
func TestAddReportsWhichPartFailed(t *testing.T) {
	needRoot(t)
	needProgram(t, "unshare")
	mode := brokenShims(t)
	d := startDaemon(t, options{})
	d.up()
	for m, want := range map[string]api.Code{"die": api.CodeNamespaceFailed, "nofuse": api.CodeViewFailed, "nocgroup": api.CodeCgroupFailed} {
		t.Log("broken:", m)
		require.NoError(t, os.WriteFile(mode, []byte(m), 0o644))
		d.refused(want, "agents", "add", "broken", "--base", "custom")
		_, there := d.agent("broken")
		require.False(t, there, m)
		require.NoDirExists(t, d.path("ws", ".polis", "worktrees", "broken"), m)
	}
	require.NoError(t, os.Remove(mode))

	// A file in place of the directory of network namespaces.
	require.NoError(t, os.Rename(d.path("run", "netns"), d.path("run", "netns.away")))
	require.NoError(t, os.WriteFile(d.path("run", "netns"), nil, 0o644))
	d.refused(api.CodeNetNSFailed, "agents", "add", "broken", "--base", "custom")
	require.NoError(t, os.Remove(d.path("run", "netns")))
	require.NoError(t, os.Rename(d.path("run", "netns.away"), d.path("run", "netns")))
	d.add("whole")
}

func TestADaemonThatCannotMakeItsNetworkReportsIt(t *testing.T) {
	needRoot(t)
	dir, err := os.MkdirTemp("/tmp", "polis-e2e-") // short, because a socket's path is bounded
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	conf := filepath.Join(dir, "polisd.toml")
	require.NoError(t, os.WriteFile(conf, fmt.Appendf(nil, "run_dir = %q\nworkspaces_dir = %q\nagents_dir = %q\nlauncher = \"fork\"\nshim = %q\n", dir+"/run", dir+"/state", dir+"/agents.d", filepath.Join(bin(t), "polis-shim")), 0o644))
	// Everything needed exists, but the kernel refuses the settings.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "--net", "--mount", "sh", "-c",
		`mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys && exec "$0" --config "$1"`, filepath.Join(bin(t), "polisd"), conf)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	r := capture(cmd, "")
	require.NotZero(t, r.code)
	require.Contains(t, r.stderr, string(api.CodeBridgeFailed), "%s", r)
	require.Contains(t, r.stderr, "polisctl doctor shows what is missing")
	// As the hint says.
	cmd = exec.CommandContext(ctx, "unshare", "--net", "--mount", "sh", "-c",
		`mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys && exec "$0" --socket "$1" doctor`, filepath.Join(bin(t), "polisctl"), filepath.Join(dir, "none"))
	r = capture(cmd, "")
	require.Contains(t, r.stdout, "cannot be written: read-only file system", "%s", r)
}

func TestCodesThatAreReportedAfterwards(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("claude", "--port", "3000")
	d.refused(api.CodePortInUse, "ports", "add", "claude", "3000")

	r := d.ctl("--json", "agents", "exec", "claude", "--", "no-such-command")
	require.Equal(t, 127, r.code, "%s", r)
	require.Contains(t, r.stderr, string(api.CodeCommandNotFound))

	d.must("lock", "README.md")
	d.must("locks", "break", "README.md", "--reason", "to see the message")
	require.Contains(t, d.must("events"), string(api.CodeLockBroken))

	// The next agent removes the lock file that a crashed git left, and the log has it.
	d.sh("claude", `lock=$(git rev-parse --git-common-dir)/refs/heads/agent/claude.lock; sh -c ': >"$0"; kill -9 $$' "$lock" || :; test -e "$lock"`)
	d.eventually("a stale lock file is cleared", func() bool {
		d.exec("claude", "sh", "-c", "git commit -q --allow-empty -m x")
		return strings.Contains(d.must("--json", "agents", "why", "claude"), string(api.CodeStaleLock))
	})

	// Explicit locks that cannot be read after a restart.
	d.must("lock", "main.txt")
	d.stop()
	require.NoError(t, os.WriteFile(d.path("state", "locks.json"), []byte("{"), 0o600))
	d.start()
	require.Contains(t, d.warnings(), string(api.CodeLockCorrupt))
	d.eventually("the event is there", func() bool { return strings.Contains(d.must("events"), string(api.CodeLockCorrupt)) })
}
