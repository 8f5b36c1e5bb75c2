//go:build seccomp

package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// parentOf is the parent of a process, 0 if there is no such process.
func parentOf(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	ppid, err := strconv.Atoi(fields[1])
	require.NoError(t, err)
	return ppid
}

// Orphans of a sandbox that has no namespace for processes come to its maker,
// which reaps them, whatever process 1 of the machine does.
func TestOrphansAreReapedByTheMaker(t *testing.T) {
	cfg := testConfig(t)
	cfg.Shared.PID = true
	s := create(t, cfg)
	// A zombie that is not waited for until the end is listed before it.
	first := exec.Command("/bin/true")
	require.NoError(t, first.Start())
	defer func() { require.NoError(t, first.Wait()) }()
	out := sh(t, s, "setsid sleep 60 </dev/null >/dev/null 2>&1 & echo $!")
	pid, err := strconv.Atoi(out)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return parentOf(t, pid) == os.Getpid() }, 20*time.Second, 5*time.Millisecond)
	require.NoError(t, unix.Kill(pid, unix.SIGTERM))
	require.Eventually(t, func() bool { return parentOf(t, pid) == 0 }, 20*time.Second, 5*time.Millisecond, "it is a zombie")
}

// No waiter finds that its child was reaped, however many orphans end meanwhile, and no orphan
// stays.
func TestTheReaperLeavesAwaitedChildren(t *testing.T) {
	cfg := testConfig(t)
	cfg.Shared.PID, cfg.Limits.Pids = true, 2000
	s := create(t, cfg)
	var work sync.WaitGroup
	for w := range 3 {
		work.Go(func() {
			for i := range 15 {
				code := 1 + (w*15+i)%100
				_, got := run(t, s, "/bin/sh", "-c", fmt.Sprintf("for i in 1 2 3 4 5; do (sleep 0.0$i & ) ; done; exit %d", code))
				if got != code {
					t.Errorf("%d, want %d", got, code)
				}
			}
		})
		work.Go(func() {
			for i := range 40 {
				err := exec.Command("/bin/sh", "-c", fmt.Sprintf("exit %d", 1+i)).Run()
				if want := fmt.Sprintf("exit status %d", 1+i); err == nil || err.Error() != want {
					t.Errorf("%v, want %s", err, want)
				}
				// One that is waited for late.
				late := exec.Command("/bin/true")
				if err := late.Start(); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Duration(i) * time.Millisecond)
				if err := late.Wait(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	session, err := unix.Getsid(0)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		left, err := children()
		require.NoError(t, err)
		for _, pid := range left {
			if s.orphan(pid, session) {
				return false
			}
		}
		return true
	}, 30*time.Second, 10*time.Millisecond, "orphans are left")
}
