package sandbox

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// leaderEnv makes the test below the leader of a session, as a shim is.
const leaderEnv = "POLIS_TEST_SESSION_LEADER"

// A terminal without a session becomes the controlling one of the session leader that opens it.
// The shim would then die by SIGHUP with the program of the agent.
func TestUnreadInputIsCountedWithoutAControllingTerminal(t *testing.T) {
	if os.Getenv(leaderEnv) == "" {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), leaderEnv+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS: "+t.Name())
		return
	}
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	defer master.Close()
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	_, err = master.WriteString("line\n")
	require.NoError(t, err)
	n, err := unreadOf(master.Fd())
	require.NoError(t, err)
	require.Equal(t, 5, n)
	stat, err := os.ReadFile("/proc/self/stat")
	require.NoError(t, err)
	// proc_pid_stat(5): tty_nr is field 7, the fifth after the name.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	require.Equal(t, "0", fields[4], "it has a controlling terminal")
}
