package leftover

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// family starts processes that belong to the test, and lists those that are alive.
type family struct {
	t    *testing.T
	mine map[int]bool
}

func (f *family) start(script string) int {
	f.t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	require.NoError(f.t, cmd.Start())
	f.mine[cmd.Process.Pid] = true
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	f.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-done
	})
	return cmd.Process.Pid
}

// procs lists the sessions of the test's processes, as a control group would.
func (f *family) procs() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var out []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := readProcess("/proc", pid); ok && (f.mine[p.session] || f.mine[pid]) {
			out = append(out, pid)
		}
	}
	return out, nil
}

func TestWhatACommandLeavesIsKnownByWhenItBegan(t *testing.T) {
	f := &family{t, map[int]bool{}}
	tr := &Tracker{Procs: f.procs}
	before := f.start("sleep 100")
	time.Sleep(50 * time.Millisecond) // the kernel counts start times in hundredths
	since, err := Now()
	require.NoError(t, err)
	left := f.start("trap '' TERM; while :; do sleep 0.1; done")
	guest := f.start("sleep 100 & wait")
	tr.Guest(guest, false)
	require.Eventually(t, func() bool {
		b, _ := os.ReadFile("/proc/" + strconv.Itoa(guest) + "/task/" + strconv.Itoa(guest) + "/children")
		return len(b) > 0
	}, 30*time.Second, time.Millisecond)
	require.False(t, tr.Any())
	require.NoError(t, tr.Ended(since, "a.1"))
	require.True(t, tr.Any())
	list, err := tr.List()
	require.NoError(t, err)
	var pids []int
	for _, p := range list {
		pids = append(pids, p.PID)
		require.NotContains(t, []int{before, guest}, p.PID)
	}
	require.Contains(t, pids, left)

	n, err := tr.End(t.Context(), 50*time.Millisecond)
	require.NoError(t, err)
	require.Positive(t, n)
	list, err = tr.List()
	require.NoError(t, err)
	require.Empty(t, list)
	for _, pid := range []int{before, guest} {
		require.NoError(t, syscall.Kill(pid, 0), "it is not left over")
	}
	_, ok := readProcess("/proc", left)
	require.False(t, ok, "it does not end when asked to, and is killed")
}

// TestWhatDescendsFromALeftover: in any tree of processes, the closure has the seeds and every
// process that has a seed as an ancestor or session leader.
func TestWhatDescendsFromALeftover(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := map[int]process{}
		for pid := range rapid.IntRange(1, 12).Draw(t, "processes") {
			pid += 2
			all[pid] = process{pid: pid, start: uint64(pid), parent: rapid.IntRange(1, pid-1).Draw(t, "parent"), session: rapid.SampledFrom([]int{1, pid}).Draw(t, "session")}
		}
		from := seeds{}
		for _, pid := range rapid.SliceOfN(rapid.IntRange(1, 16), 0, 4).Draw(t, "seed") {
			from[pid] = seed{start: uint64(pid) + uint64(rapid.IntRange(0, 1).Draw(t, "another process")), task: fmt.Sprint("a.", pid)}
		}
		in := closure(all, from)
		for pid, p := range all {
			_, has := in[pid]
			_, parent := in[p.parent]
			_, leader := in[p.session]
			s, seeded := from[pid]
			require.Equal(t, has, seeded && s.start == p.start || parent || leader && p.session != pid, "process %d", pid)
			if seeded && has && s.start == p.start {
				require.Equal(t, s.task, in[pid].task)
			} else if has {
				require.Contains(t, []string{in[p.parent].task, in[p.session].task}, in[pid].task)
			}
		}
	})
}

func TestAProcessIsReadWhateverItsName(t *testing.T) {
	dir := t.TempDir()
	put := func(stat string) {
		require.NoError(t, os.MkdirAll(dir+"/7", 0o700))
		require.NoError(t, os.WriteFile(dir+"/7/stat", []byte(stat), 0o600))
	}
	rest := " 3 4 5" + strings.Repeat(" 0", 15) + " 99 0"
	put("7 (a) (b) S" + rest)
	p, ok := readProcess(dir, 7)
	require.True(t, ok)
	require.Equal(t, process{pid: 7, parent: 3, session: 5, start: 99, comm: "a) (b"}, p)
	for _, bad := range []string{"", "7 a S", "7 (a) Z" + rest, "7 (a) S 1 2", "7 )a( S" + rest} {
		put(bad)
		_, ok := readProcess(dir, 7)
		require.False(t, ok, bad)
	}
}
