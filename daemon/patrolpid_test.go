package daemon

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/host/procstat"
	"polis/daemon/patrol"
	"polis/daemon/patrol/verdict"
)

// inOwnPIDs is set in the process that runs a test in a PID namespace of its own.
const inOwnPIDs = "POLIS_TEST_OWN_PIDS"

// A process that got the number of one that has ended is another program: what was found about that one
// does not hold for it. The kernel gives out the number again: ns_last_pid of proc_sys_kernel(5), in a
// namespace where nothing else takes it.
func TestAReusedProcessNumberIsAnotherProgram(t *testing.T) {
	if os.Getenv(inOwnPIDs) == "" {
		if os.Geteuid() != 0 {
			if os.Getenv("CI") == "true" {
				t.Fatal("must be root in CI")
			}
			t.Skip("needs root")
		}
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), inOwnPIDs+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Unshareflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS: "+t.Name())
		return
	}
	require.NoError(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	require.NoError(t, unix.Mount("proc", "/proc", "proc", 0, ""))
	program := func() *exec.Cmd {
		cmd := exec.Command("sleep", "1000")
		require.NoError(t, cmd.Start())
		return cmd
	}
	end := func(cmd *exec.Cmd) {
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() //nolint:errcheck // it was killed
	}
	observe := func(pid int) patrol.Observed {
		began, err := procstat.Began(pid)
		require.NoError(t, err)
		return patrol.Observed{Agent: "a", Workspace: "w", Generation: 1, Status: api.StatusRunning, Shim: true, Program: true, PID: pid, Began: began, Task: "a.1"}
	}

	// It reports false if a thread of this process has taken the number, and keeps it.
	reused := func() bool {
		first := program()
		pid := first.Process.Pid
		was := observe(pid)
		now, lim := time.Now(), patrol.Limits{Limits: verdict.Limits{Stalled: time.Minute}}
		p := patrol.New()
		p.Look(now, []patrol.Observed{was}, lim)
		found, _ := p.Look(now.Add(time.Hour), []patrol.Observed{was}, lim)
		require.Len(t, found, 1)
		require.True(t, found[0].Same(observe(pid)))
		end(first)
		_, err := procstat.Began(pid)
		require.Error(t, err)
		time.Sleep(30 * time.Millisecond) // more than one clock tick: its number cannot be given out sooner than all others

		second := program()
		for tries := 0; second.Process.Pid != pid; tries++ {
			end(second)
			if tries == 10 {
				return false
			}
			require.NoError(t, os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0))
			second = program()
		}
		defer end(second)
		is := observe(pid)
		require.False(t, found[0].Same(is), "nothing is done about it")
		found, _ = p.Look(now.Add(2*time.Hour), []patrol.Observed{is}, lim)
		require.Empty(t, found, "it is judged by its own time")
		require.NotEqual(t, patrol.Incident(was), patrol.Incident(is), "it is another case")
		return true
	}
	for tries := 0; !reused(); tries++ {
		require.Less(t, tries, 10)
	}
}
