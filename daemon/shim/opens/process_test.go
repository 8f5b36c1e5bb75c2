package opens

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs"
)

// TestMain is also a process of several threads, for the tests that identify one: it prints their numbers.
func TestMain(m *testing.M) {
	var n int
	if _, err := fmt.Sscan(os.Getenv("OPENS_TEST_THREADS"), &n); err != nil {
		os.Exit(m.Run())
	}
	for range n {
		ready := make(chan int)
		go func() {
			runtime.LockOSThread()
			ready <- unix.Gettid()
			select {}
		}()
		fmt.Println(<-ready)
	}
	_, _ = os.Stdin.Read(make([]byte, 1))
	os.Exit(0)
}

// threads starts a process and returns the numbers of n of its threads.
func threads(tb testing.TB, n int) (pid uint32, all []uint32) {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), "/proc/self/exe", "a process of threads")
	cmd.Env = append(os.Environ(), fmt.Sprintf("OPENS_TEST_THREADS=%d", n))
	in, err := cmd.StdinPipe()
	require.NoError(tb, err)
	out, err := cmd.StdoutPipe()
	require.NoError(tb, err)
	require.NoError(tb, cmd.Start())
	tb.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for len(all) < n && lines.Scan() {
		var tid uint32
		_, err := fmt.Sscan(lines.Text(), &tid)
		require.NoError(tb, err)
		all = append(all, tid)
	}
	require.Len(tb, all, n, lines.Err())
	return uint32(cmd.Process.Pid), all
}

// TestEachThreadIsOfItsProcess: by the kernel's answer, by the text of /proc where the kernel has none, and again when the
// number of a thread has become one of another process.
func TestEachThreadIsOfItsProcess(t *testing.T) {
	pid, tids := threads(t, 8)
	other, _ := threads(t, 1)
	p := &processes{threads: map[uint32]uint32{}}
	p.open()
	defer func() { require.NoError(t, p.close(context.Background())) }()
	for _, tid := range append(tids, pid) {
		require.Equal(t, pid, statusTgid(tid))
		require.Equal(t, pid, tgid(tid))
		p.threads[tid] = other // as if the number had been that of a thread of another process
		for range 2 {
			got := p.of(tid)
			require.Equal(t, pid, got.pid)
			require.NotEmpty(t, got.program)
		}
	}
	require.Len(t, p.m, 1)
	require.Eventually(t, func() bool { return p.of(tids[0]).command == "/proc/self/exe a process of threads" }, time.Minute, time.Millisecond)
	const none = 1 << 22 // above pid_max
	require.Equal(t, process{pid: none}, process{pid: p.of(none).pid, program: p.of(none).program, command: p.of(none).command})
	for i := range uint32(maxThreads + 10) {
		p.processOf(none + i)
	}
	require.LessOrEqual(t, len(p.threads), maxThreads)
}

// TestAnotherProgramOfAProcessIsSeenAtOnce: execve(2) replaces the program, and the number stays.
func TestAnotherProgramOfAProcessIsSeenAtOnce(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "read x; exec sleep 100")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Wait() }()
	defer func() { require.NoError(t, cmd.Process.Kill()) }()
	p := &processes{}
	p.open()
	defer func() { require.NoError(t, p.close(context.Background())) }()
	pid := uint32(cmd.Process.Pid)
	require.Eventually(t, func() bool { return strings.Contains(p.of(pid).command, "read x") }, time.Minute, time.Millisecond)
	require.NoError(t, in.Close())
	require.Eventually(t, func() bool {
		return filepath.Base(p.of(pid).program) == "sleep" || strings.Contains(p.of(pid).program, "coreutils")
	}, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool { return p.of(pid).command == "sleep 100" }, time.Minute, time.Millisecond)
}

// cpu is the processor time of this process.
func cpu(tb testing.TB) time.Duration {
	var u syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRecordOfThreads prints the processor time of a record of an open: of a thread that opens many files, of a
// process of which each thread opens one, and of processes that open one.
func BenchmarkRecordOfThreads(b *testing.B) {
	const n = 200
	_, tids := threads(b, n)
	var pids []uint32
	for range n {
		pid, _ := threads(b, 1)
		pids = append(pids, pid)
	}
	for _, tc := range []struct {
		name string
		of   func(i int) uint32
	}{
		{"thread", func(int) uint32 { return tids[0] }},
		{"threads", func(i int) uint32 { return tids[i%n] }},
		{"processes", func(i int) uint32 { return pids[i%n] }},
	} {
		b.Run(tc.name, func(b *testing.B) {
			var spent time.Duration
			for b.Loop() {
				r := recorder(b, false)
				before := cpu(b)
				for i := range n {
					require.Zero(b, r.Reserve())
					r.Record(fusefs.Caller{Pid: tc.of(i)}, fusefs.OpOpenRead, false, fusefs.Target{Path: fmt.Sprint("some/directory/file", i)})
				}
				spent += cpu(b) - before
			}
			b.ReportMetric(float64(spent.Nanoseconds())/float64(n*b.N), "cpu-ns/record")
		})
	}
}
