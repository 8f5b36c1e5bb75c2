package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// processOneEnv makes the test binary a command that runs its arguments below a
// process 1 that reaps nothing but them, as "sleep infinity" is one in a
// container: "outside" starts it, "inside" is it.
const processOneEnv = "POLIS_TEST_PROCESS_ONE"

func processOne(part string, command []string) int {
	cmd := exec.Command(command[0], command[1:]...)
	switch part {
	case "outside":
		self, err := os.Executable()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		cmd = exec.Command(self, command...)
		cmd.Env = append(os.Environ(), processOneEnv+"=inside")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Unshareflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	default:
		if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if err := os.Unsetenv(processOneEnv); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	asked := make(chan os.Signal, 4)
	signal.Notify(asked, syscall.SIGTERM, syscall.SIGHUP)
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go func() { // ends with the program
		for sig := range asked {
			if err := cmd.Process.Signal(sig); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}()
	if err := cmd.Wait(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// TestOrphansDoNotUseUpAnAgentsProcesses if agents have no process namespace and process 1 of the
// machine reaps nothing. There are ten times as many orphans as the agent may have processes.
func TestOrphansDoNotUseUpAnAgentsProcesses(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	d := startDaemon(t, options{box: allowDegraded,
		wrap: append([]string{"/usr/bin/env", processOneEnv + "=outside", self}, without(t, unix.CLONE_NEWPID)...)})
	d.up()
	require.Contains(t, d.add("alice", "--pids", "64").Lost, "pid")
	for range 16 {
		d.eventually("there is room for forty more", func() bool {
			return d.exec("alice", "sh", "-ec", "for i in $(seq 40); do (sleep 0.01 &); done").code == 0
		})
	}
	d.eventually("they are gone", func() bool {
		n, err := strconv.Atoi(strings.TrimSpace(d.sh("alice", "ls -d /proc/[0-9]* | wc -l")))
		return err == nil && n < 20
	})
	d.must("agents", "remove", "alice", "--force")
}
