package leftover

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestASocketBelongsToAllThatHaveIt: one that a person's command shares with a leftover is not certainly the person's.
func TestASocketBelongsToAllThatHaveIt(t *testing.T) {
	all := map[int]process{1: {}, 2: {}, 3: {}, 4: {}, 5: {}}
	guests := map[int]process{1: {}, 2: {}}
	left := map[int]process{3: {task: "a.1"}, 4: {task: "a.2"}}
	for name, c := range map[string]struct {
		who  []int
		want Holders
	}{
		"nobody":                  {nil, Holders{}},
		"a person's":              {[]int{1, 2}, Holders{Guests: true}},
		"a person's and another":  {[]int{1, 5}, Holders{}},
		"a person's and a task's": {[]int{1, 3}, Holders{}},
		"a task's":                {[]int{3}, Holders{Task: "a.1"}},
		"two tasks'":              {[]int{3, 4}, Holders{}},
		"another":                 {[]int{5}, Holders{}},
	} {
		t.Run(name, func(t *testing.T) {
			has := map[int]bool{}
			for _, pid := range c.who {
				has[pid] = true
			}
			got, err := holders(all, guests, left, func(pid int) (bool, error) { return has[pid], nil })
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	_, err := holders(all, guests, left, func(int) (bool, error) { return true, errors.New("too late") })
	require.Error(t, err, "what was not read belongs to nobody")
}

// TestTheHoldersOfASocketAreFound: a person's command, what descends from it, and what a task left.
func TestTheHoldersOfASocketAreFound(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	file, err := l.(*net.TCPListener).File()
	require.NoError(t, err)
	defer file.Close()
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(int(file.Fd()), &st))
	f := &family{t, map[int]bool{}}
	tr := &Tracker{Procs: f.procs}
	start := func(script string) int {
		cmd := exec.Command("/bin/sh", "-c", script)
		cmd.SysProcAttr, cmd.ExtraFiles = &syscall.SysProcAttr{Setsid: true}, []*os.File{file}
		require.NoError(t, cmd.Start())
		f.mine[cmd.Process.Pid] = true
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); <-done })
		return cmd.Process.Pid
	}
	of := func(main int) Holders {
		h, err := tr.Holders(t.Context(), uint32(st.Ino), main)
		require.NoError(t, err)
		return h
	}
	require.Equal(t, Holders{}, of(0))
	guest := start("sleep 100 & wait")
	require.Equal(t, Holders{}, of(0), "it is not known yet")
	require.Equal(t, Holders{Guests: true}, of(guest), "a person's main command")
	tr.Guest(guest, false)
	require.Equal(t, Holders{Guests: true}, of(0))
	require.NoError(t, syscall.Kill(-guest, syscall.SIGKILL))
	require.Eventually(t, func() bool { return of(0) == Holders{} }, 30*time.Second, 10*time.Millisecond)

	time.Sleep(50 * time.Millisecond) // the kernel counts start times in hundredths
	since, err := Now()
	require.NoError(t, err)
	start("sleep 100")
	require.NoError(t, tr.Ended(since, "a.1"))
	require.Equal(t, Holders{Task: "a.1"}, of(0))
	require.NoError(t, tr.Ended(since, "a.2"))
	require.Equal(t, Holders{Task: "a.1"}, of(0), "it is left by the first task that it outlived")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = tr.Holders(ctx, uint32(st.Ino), 0)
	require.ErrorIs(t, err, context.Canceled)
	many := make([]int, maxProcs+1)
	tr.Procs = func() ([]int, error) { return many, nil }
	_, err = tr.Holders(t.Context(), uint32(st.Ino), 0)
	require.ErrorContains(t, err, "at most")
}
