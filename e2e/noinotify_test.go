package e2e

import (
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
)

// noInotifyEnv makes the test binary a command that executes its arguments under a filter that answers inotify_init1(2) as
// the kernel does when the user has no instance left. The kernel counts those of all processes of root: to use them up would
// take them from everything else on the machine, other tests too.
const noInotifyEnv = "POLIS_TEST_NO_INOTIFY"

func refuseInotify(command []string) error {
	runtime.LockOSThread()
	return execFiltered([]unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_INOTIFY_INIT1, Jt: 0, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EMFILE)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}, noInotifyEnv, command)
}

// Without an inotify instance polisd reads branches every few seconds, and doctor reports it.
func TestUsedUpInotifyInstancesDelayAndAreReported(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	d := startDaemon(t, options{config: "[locks]\nhold = \"close\"\n", wrap: []string{"/usr/bin/env", noInotifyEnv + "=1", self}})
	d.up()
	d.worker("alice")
	d.add("bob")
	c := d.check("inotify")
	require.Equal(t, api.CheckWarn, c.State)
	require.Contains(t, c.Found, "no instance left")
	require.Contains(t, c.Fix, "fs.inotify.max_user_instances")
	require.Contains(t, d.log(), "branches are read every few seconds")

	// Commits are seen: conflicts are found and end.
	d.sh("alice", commitOf("main.txt", "alice"))
	d.sh("bob", commitOf("main.txt", "bob"))
	d.eventually("the conflict to be found", func() bool { return len(d.happened(api.EventConflictFound)) == 1 })
	d.sh("bob", "git reset -q --hard HEAD~1")
	d.eventually("the conflict to be gone", func() bool { return len(d.happened(api.EventConflictGone)) == 1 })

	// A log is followed, and merges and the owner's own commits reach agents.
	f := d.follow("agents", "logs", "-f", "alice")
	d.task("alice", "echo said-by-the-task; "+commitOf("a.txt", "alice"))
	d.eventually("the log to be followed", func() bool { return strings.Contains(f.text(), "said-by-the-task") })
	f.ends(syscall.SIGINT)
	d.fate("alice", api.MergeMerged)
	d.sh("bob", "git merge -q main; cat a.txt")

	// With instances the next polisd watches.
	d.stop()
	d.wrap = nil
	d.start()
	require.Equal(t, api.CheckOK, d.check("inotify").State)
}
