//go:build seccomp

package sandbox

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// What the machine cannot give, the sandbox has in common with the host; all
// else holds as before, and everything inside still ends with it.
func TestSandboxWithoutSomeNamespaces(t *testing.T) {
	own := func(ns string) string {
		l, err := os.Readlink("/proc/self/ns/" + ns)
		require.NoError(t, err)
		return l
	}
	for name, c := range map[string]struct {
		shared Shared
		ns     []string
	}{
		"network":    {Shared{Network: true}, []string{"net"}},
		"pid":        {Shared{PID: true}, []string{"pid"}},
		"ipc":        {Shared{IPC: true}, []string{"ipc"}},
		"uts":        {Shared{UTS: true}, []string{"uts"}},
		"cgroup":     {Shared{Cgroup: true}, []string{"cgroup"}},
		"everything": {Shared{Network: true, PID: true, IPC: true, UTS: true, Cgroup: true}, []string{"net", "pid", "ipc", "uts", "cgroup"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(t)
			cfg.Shared = c.shared
			s := create(t, cfg)
			for _, ns := range []string{"mnt", "net", "pid", "ipc", "uts", "cgroup"} {
				got := sh(t, s, "readlink /proc/self/ns/"+ns)
				shared := false
				for _, n := range c.ns {
					shared = shared || n == ns
				}
				require.Equal(t, shared, got == own(ns), ns)
			}
			status := sh(t, s, "cat /proc/self/status")
			require.Contains(t, status, "CapEff:\t0000000000000000")
			require.Contains(t, status, "Seccomp:\t2")
			for _, script := range []string{"touch /usr/x", "ls /var/log", "unshare -Ur true", "echo 1 > /proc/sys/kernel/dmesg_restrict"} {
				out, code := run(t, s, "/bin/sh", "-c", script)
				require.NotZero(t, code, "%s: %s", script, out)
			}
			if c.shared.PID {
				require.NotContains(t, sh(t, s, "ps ax"), fmt.Sprintf(" %d ", os.Getpid()), "processes of other users")
				out, code := run(t, s, "python3", "-c", "import ctypes; exit(ctypes.CDLL(None).ptrace(0, 0, 0, 0) == 0)")
				require.Zero(t, code, "ptrace is not refused: "+out)
			}
			// Detached from everything, and gone with the sandbox.
			sh(t, s, "setsid sleep 3600 </dev/null >/dev/null 2>&1 & ")
			pids, err := s.Pids()
			require.NoError(t, err)
			require.GreaterOrEqual(t, len(pids), 2)
			require.NoError(t, s.Destroy(t.Context()))
			for _, pid := range pids {
				require.Eventually(t, func() bool {
					b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
					return err != nil || unix.Kill(pid, 0) != nil || len(b) > 0 && containsState(b, 'Z')
				}, 30*time.Second, 10*time.Millisecond)
			}
		})
	}
}

func containsState(stat []byte, state byte) bool {
	for i := len(stat) - 1; i > 2; i-- {
		if stat[i] == ')' {
			return i+2 < len(stat) && stat[i+2] == state
		}
	}
	return false
}
