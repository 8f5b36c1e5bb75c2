package systemd

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUnderSystemd boots a systemd and runs itself in it, as the guest.
func TestUnderSystemd(t *testing.T) {
	if os.Getenv("POLIS_GUEST") != "" {
		guest(t)
		return
	}
	needSystemd(t)
	bin := programs()
	dir := guestDir(t)
	// What "make install" reads, because the guest's /tmp hides a clone in /tmp.
	tree := filepath.Join(dir, "tree")
	require.NoError(t, os.MkdirAll(tree, 0o755))
	self, err := os.Executable()
	require.NoError(t, err)
	for from, to := range map[string]string{"../../Makefile": tree, "../../README.md": tree, "../../units": tree, "../../docs": tree, "../../packaging": tree, "../../scripts": tree, bin: filepath.Join(tree, "bin"), self: filepath.Join(dir, "guest.test")} {
		out, err := exec.CommandContext(t.Context(), "cp", "-r", from, to).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	for _, args := range [][]string{
		{"CGO_ENABLED=0", "build", "-o", filepath.Join(dir, "busy"), "../busy"},
		{"CGO_ENABLED=1", "test", "-c", "-tags", "seccomp delegated", "-o", filepath.Join(dir, "sandbox.test"), "../../cgroup/sandbox"},
	} {
		build := exec.CommandContext(t.Context(), "go", args[1:]...)
		build.Env = append(os.Environ(), args[0])
		out, err := build.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	bootGuest(t, dir, nil)
}

// needSystemd skips the test, or fails it in CI, where a systemd cannot be booted.
func needSystemd(t *testing.T) {
	t.Helper()
	missing := ""
	switch _, err := os.Stat("/lib/systemd/systemd"); {
	case os.Geteuid() != 0:
		missing = "needs root"
	case err != nil:
		missing = "systemd is not installed"
	}
	if missing != "" && os.Getenv("CI") == "true" {
		t.Fatal(missing)
	}
	if missing != "" {
		t.Skip(missing)
	}
}

// programs is the directory with the built programs.
func programs() string { return cmp.Or(os.Getenv("POLIS_BIN"), "../../bin") }

// guestDir makes the directory that the guest has as /run/guest, with the test itself in it.
func guestDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "polis-guest-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() {
		mounts, err := os.ReadFile("/proc/self/mounts")
		if err != nil || strings.Contains(string(mounts), dir) {
			t.Errorf("not removed, something may be mounted below: %s", dir)
			return
		}
		require.NoError(t, os.RemoveAll(dir))
	})
	return dir
}

// bootGuest boots a systemd and runs the test with the same name in it.
func bootGuest(t *testing.T, dir string, env []string) {
	t.Helper()
	boot, timeout := "./boot", "8m"
	export := ""
	if vm := os.Getenv("POLIS_BOOT"); vm != "" { // a slow machine: see e2e/vm
		boot, timeout, export = vm, "55m", "export POLIS_PATIENCE="+os.Getenv("POLIS_PATIENCE")+"\n"
	}
	name, _, _ := strings.Cut(t.Name(), "/")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "run"), []byte("#!/bin/sh\n"+export+"exec ./guest.test -test.v -test.run '^"+name+"$' -test.timeout "+timeout+"\n"), 0o755))
	cmd := exec.CommandContext(t.Context(), boot, dir)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatalf("the guest ended with status %d", exit.ExitCode())
	}
	require.NoError(t, err)
}
