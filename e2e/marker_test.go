package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// marker is a file that exists if content of an agent was executed on the host.
type marker struct {
	t    testing.TB
	file string
	// script makes the file and ends.
	script string
}

// marker makes a script that every user can run and that is outside of every sandbox.
func (d *daemon) marker(name string) marker {
	d.t.Helper()
	dir := d.path(name + ".d")
	require.NoError(d.t, os.Mkdir(dir, 0o755))
	require.NoError(d.t, os.Chmod(dir, 0o777|os.ModeSticky))
	m := marker{t: d.t, file: filepath.Join(dir, "ran"), script: filepath.Join(dir, "evil")}
	require.NoError(d.t, os.WriteFile(m.script, []byte("#!/bin/sh\necho \"$0 $*\" >> "+m.file+"\n"), 0o755))
	require.NoError(d.t, os.Chmod(m.script, 0o755))
	return m
}

// works is the positive control: the planted program runs if do does what no command of polis may
// do.
func (m marker) works(do func()) {
	m.t.Helper()
	require.NoFileExists(m.t, m.file)
	do()
	require.FileExists(m.t, m.file, "the test planted nothing that git runs")
	require.NoError(m.t, os.Remove(m.file))
}

// asOwner runs git in dir as the projects' owner, and ignores its output and status.
func (d *daemon) asOwner(dir string, args ...string) string {
	d.t.Helper()
	return d.ownersProgram(dir, "git", args...)
}

// shAsOwner is asOwner for a script.
func (d *daemon) shAsOwner(dir, script string) string {
	d.t.Helper()
	return d.ownersProgram(dir, "sh", "-c", script)
}

func (d *daemon) ownersProgram(dir, name string, args ...string) string {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner, Gid: owner}}
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return err.Error() + ": " + string(out)
	}
	return string(out)
}
