package procstat

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLoopbackAddressesOfTheKernelsTables(t *testing.T) {
	for a, want := range map[string]bool{
		"0100007F":                         true,  // 127.0.0.1
		"0201007F":                         true,  // 127.0.1.2
		"0100000A":                         false, // 10.0.0.1
		"7F00000A":                         false, // 10.0.0.127
		"00000000000000000000000001000000": true,  // ::1
		"0000000000000000FFFF00000100007F": true,  // ::ffff:127.0.0.1
		"0000000000000000FFFF00000100000A": false,
		"B80D0120000000000000000001000000": false, // 2001:db8::1
		"":                                 false,
	} {
		require.Equal(t, want, loopbackHex(a), a)
	}
}

func TestAStoppedProcessIsSeen(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	require.NoError(t, cmd.Start())
	defer func() { require.NoError(t, cmd.Process.Kill()); _ = cmd.Wait() }()
	require.Zero(t, Stopped([]int{os.Getpid(), cmd.Process.Pid}))
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	require.Eventually(t, func() bool { return Stopped([]int{os.Getpid(), cmd.Process.Pid, 1 << 30}) == cmd.Process.Pid }, 20*time.Second, 5*time.Millisecond)
}

func TestWhatAProcessWritesIsCounted(t *testing.T) {
	before := CallBytes([]int{os.Getpid()})
	f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.Write(make([]byte, 1000))
	require.NoError(t, err)
	require.GreaterOrEqual(t, CallBytes([]int{os.Getpid()}), before+1000)
	require.Zero(t, CallBytes([]int{1 << 30}), "it has ended")
}

func TestConnectionsToOneselfAreNoneToTheOutside(t *testing.T) {
	before, err := Connections(os.Getpid())
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	after, err := Connections(os.Getpid())
	require.NoError(t, err)
	require.LessOrEqual(t, after, before+5, "others on this machine may have made some")
	_, err = Connections(1 << 30)
	require.NoError(t, err, "a process that has ended has none")
	_, err = NetBytes(os.Getpid())
	require.NoError(t, err)
}

func TestAProcessBeganOnce(t *testing.T) {
	own, err := Began(os.Getpid())
	require.NoError(t, err)
	require.NotZero(t, own)
	again, err := Began(os.Getpid())
	require.NoError(t, err)
	require.Equal(t, own, again)

	// A name with spaces and parentheses is one field.
	odd := filepath.Join(t.TempDir(), "a) 1 (b")
	sleep, err := exec.LookPath("sleep")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(sleep, odd))
	cmd := exec.CommandContext(t.Context(), odd, "1000")
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	later, err := Began(cmd.Process.Pid)
	require.NoError(t, err)
	require.GreaterOrEqual(t, later, own)

	_, err = Began(0)
	require.Error(t, err)
}
