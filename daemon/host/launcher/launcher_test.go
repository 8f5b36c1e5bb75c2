package launcher

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// program writes a stand-in for polis-shim.
func program(t *testing.T, script string) string {
	p := filepath.Join(t.TempDir(), "shim")
	require.NoError(t, os.WriteFile(p, []byte("#!/bin/sh\n"+script), 0o755))
	return p
}

func TestAliveKnowsItsOwnProcessOnly(t *testing.T) {
	dir := t.TempDir()
	f := &Fork{Shim: program(t, "exec sleep 600\n")}
	alive := func() bool {
		ok, err := f.Alive(t.Context(), "a", dir)
		require.NoError(t, err)
		return ok
	}
	require.False(t, alive(), "never started")
	require.NoError(t, f.Start(t.Context(), "a", filepath.Join(dir, "spec.json")))
	// Its command line has become another's; it is the same process.
	require.Eventually(t, func() bool {
		pid, err := f.pid(dir)
		require.NoError(t, err)
		require.NotZero(t, pid)
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		require.NoError(t, err)
		return string(comm) == "sleep\n"
	}, 20*time.Second, 5*time.Millisecond)
	require.NoError(t, f.Stop(t.Context(), "a", dir, 5*time.Second))
	require.False(t, alive())
	require.NoError(t, f.Stop(t.Context(), "a", dir, time.Second), "a second time")

	file := filepath.Join(dir, "shim.pid")
	at, _, err := born(os.Getpid())
	require.NoError(t, err)
	for name, c := range map[string]struct {
		text string
		want bool
	}{
		"the number and the time":                          {fmt.Sprintf("%d %d\n", os.Getpid(), at), true},
		"the number is another's now":                      {fmt.Sprintf("%d %d\n", os.Getpid(), at-1), false},
		"of an earlier version, another's":                 {fmt.Sprint(os.Getpid()), false},
		"cut short":                                        {"", false},
		"not a number":                                     {"x y", false},
		"process 1 is no shim":                             {"1 1", false},
		"no process has the number (kernel: at most 2^22)": {"4999999 1", false},
	} {
		require.NoError(t, os.WriteFile(file, []byte(c.text), 0o600))
		require.Equal(t, c.want, alive(), name)
	}

	// Dead, and not yet waited for.
	cmd := exec.Command("true") //nolint:noctx // ends at once
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { _, over, err := born(cmd.Process.Pid); return err == nil && over }, 20*time.Second, time.Millisecond)
	at, _, err = born(cmd.Process.Pid)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "%d %d", cmd.Process.Pid, at), 0o600))
	require.False(t, alive())
	require.NoError(t, cmd.Wait())
}
