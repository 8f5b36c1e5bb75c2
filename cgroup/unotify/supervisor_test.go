package unotify

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// strangerEnv has the test binary be another process, which hands a file in at
// the supervisor whose socket it names.
const strangerEnv = "POLIS_TEST_STRANGER"

// init keeps the first thread for the main goroutine: it does not end with a
// goroutine that is locked to it, and would keep its filter.
func init() { runtime.LockOSThread() }

func TestMain(m *testing.M) {
	if path := os.Getenv(strangerEnv); path != "" {
		if err := hand(path, 0); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// open starts a supervisor, and returns the calls it reports.
func open(t *testing.T) (*Supervisor, chan Call) {
	t.Helper()
	d, err := Open(filepath.Join(t.TempDir(), strings.Repeat("long", 40)))
	require.NoError(t, err)
	calls := make(chan Call, 1<<16)
	d.Identify = func(thread int) Caller { return Caller{Pid: thread} }
	d.Refused = func(c Call, caller Caller) {
		if caller.Pid == c.Thread {
			calls <- c
		}
	}
	run(t, d)
	return d, calls
}

func run(t *testing.T, d *Supervisor) {
	done := make(chan error, 1)
	go func() { done <- d.Run() }()
	t.Cleanup(func() {
		require.NoError(t, d.Stop())
		select {
		case err := <-done:
			require.NoError(t, err)
		case <-time.After(time.Minute):
			t.Fatal("the supervisor does not stop")
		}
		require.NoError(t, d.Close())
		require.NoError(t, d.Stop(), "once more")
		require.NoDirExists(t, d.dir)
	})
}

// hand sends descriptors to a supervisor.
func hand(path string, fds ...int) error {
	c, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	defer c.Close()
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	_, _, err = c.(*net.UnixConn).WriteMsgUnix([]byte("{}"), rights, nil)
	return err
}

// asking runs f in a thread whose getppid is referred to the supervisor.
func asking(t *testing.T, d *Supervisor, f func()) (ended chan struct{}) {
	t.Helper()
	ready := make(chan error, 1)
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // for ever: the filter ends with the thread
		fd, err := listen()
		if err == nil {
			err = hand(d.Path(), fd)
			_ = unix.Close(fd)
		}
		ready <- err
		if err == nil {
			f()
		}
	}()
	require.NoError(t, <-ready)
	return ended
}

func getppid() error {
	if _, _, e := unix.Syscall(unix.SYS_GETPPID, 0x11, 0x22, 0); e != 0 {
		return e
	}
	return nil
}

func wait(t *testing.T, ended chan struct{}) {
	t.Helper()
	select {
	case <-ended:
	case <-time.After(60 * time.Second):
		t.Fatal("a call has no answer")
	}
}

func TestCallsAreRefusedAndReported(t *testing.T) {
	d, calls := open(t)
	var errs []error
	thread := 0
	wait(t, asking(t, d, func() {
		thread = unix.Gettid()
		errs = append(errs, getppid(), getppid())
		_, _, e := unix.RawSyscall(unix.SYS_GETPID, 0, 0, 0)
		require.Zero(t, e, "the filter does not refer it")
	}))
	require.Equal(t, []error{unix.EPERM, unix.EPERM}, errs)
	for range 2 {
		c := <-calls
		require.Equal(t, thread, c.Thread)
		require.Equal(t, unix.SYS_GETPPID, c.Nr)
		require.EqualValues(t, 0x11, c.Args[0])
		require.EqualValues(t, 0x22, c.Args[1])
	}
	require.Empty(t, calls)
}

// The kernel refuses the calls of a filter whose supervisor is closed.
func TestAClosedSupervisorLetsNothingThrough(t *testing.T) {
	d, err := Open(filepath.Join(t.TempDir(), "d"))
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- d.Run() }()
	closed := make(chan struct{})
	var before, after error
	ended := asking(t, d, func() {
		before = getppid()
		<-closed
		after = getppid()
	})
	require.Eventually(t, func() bool { return d.Stop() == nil }, 20*time.Second, time.Millisecond)
	require.NoError(t, <-done)
	require.NoError(t, d.Close())
	close(closed)
	wait(t, ended)
	require.Contains(t, []error{unix.EPERM, unix.ENOSYS}, before, "the listener may have come too late")
	require.Equal(t, unix.ENOSYS, after)
}

func TestListenersEndWithTheirThreads(t *testing.T) {
	d, _ := open(t)
	before := descriptors(t)
	for range 50 {
		wait(t, asking(t, d, func() { require.Equal(t, unix.EPERM, getppid()) }))
	}
	require.Eventually(t, func() bool { return descriptors(t) <= before }, 30*time.Second, 10*time.Millisecond)
}

func descriptors(t *testing.T) int {
	t.Helper()
	e, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(e)
}

// A descriptor that is no listener, or comes from another process, is rejected, and the
// supervisor continues.
func TestASupervisorTakesListenersOfItsOwnProcessOnly(t *testing.T) {
	d, calls := open(t)
	before := descriptors(t)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	require.NoError(t, hand(d.Path()), "none")
	require.NoError(t, hand(d.Path(), int(r.Fd()), int(w.Fd())), "two")
	require.NoError(t, hand(d.Path(), int(r.Fd())), "no listener")
	c, err := net.Dial("unix", d.Path())
	require.NoError(t, err)
	require.NoError(t, c.Close())
	exe, err := os.Executable()
	require.NoError(t, err)
	dir, err := os.Readlink(filepath.Dir(d.Path()))
	require.NoError(t, err)
	short := filepath.Join(t.TempDir(), "s")
	require.NoError(t, os.Symlink(dir, short))
	if len(short)+2 < 108 {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), strangerEnv+"="+filepath.Join(short, name))
		// The connection may be closed before the message is sent.
		_ = cmd.Run()
	}
	// What was written makes the pipe look as if it had a question.
	_, err = w.Write([]byte("x"))
	require.NoError(t, err)
	wait(t, asking(t, d, func() { require.Equal(t, unix.EPERM, getppid()) }))
	require.Eventually(t, func() bool { return len(calls) == 1 }, 30*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { return descriptors(t) <= before+2 }, 30*time.Second, 10*time.Millisecond, "the pipe's, and no others")
}

// A flood is answered at the supervisor's own pace, and who calls besides is not kept
// waiting behind all of it.
func TestAFloodIsSlowedDown(t *testing.T) {
	d, err := Open(filepath.Join(t.TempDir(), "d"))
	require.NoError(t, err)
	var refused atomic.Int64
	d.Refused = func(Call, Caller) { refused.Add(1) }
	run(t, d)
	var stop atomic.Bool
	var flood sync.WaitGroup
	start := time.Now()
	for range 4 {
		ended := asking(t, d, func() {
			for !stop.Load() {
				if err := getppid(); !errors.Is(err, unix.EPERM) {
					t.Errorf("a refused call returned %v", err)
					return
				}
			}
		})
		flood.Go(func() { wait(t, ended) })
	}
	time.Sleep(time.Second)
	other := time.Now()
	wait(t, asking(t, d, func() { require.Equal(t, unix.EPERM, getppid()) }))
	waited := time.Since(other)
	stop.Store(true)
	flood.Wait()
	most := burst + int64(time.Since(start)/interval) + 32
	t.Logf("%d calls in %s; another waited %s", refused.Load(), time.Since(start), waited)
	require.LessOrEqual(t, refused.Load(), most)
	require.Greater(t, refused.Load(), int64(burst), "and continues")
	require.Less(t, waited, 30*time.Second)
}

func TestPace(t *testing.T) {
	now := time.Now()
	p := pace{now: func() time.Time { return now }}
	require.Zero(t, p.due())
	for range burst - 1 {
		p.spend()
	}
	require.Zero(t, p.due())
	p.spend()
	require.Equal(t, nap, p.due())
	now = now.Add(nap)
	p.fill()
	require.Equal(t, int(nap/interval), p.left)
	now = now.Add(time.Hour)
	p.fill()
	require.Equal(t, burst, p.left)
}

func TestProbe(t *testing.T) {
	if os.Geteuid() != 0 && os.Getenv("CI") != "true" {
		t.Skip("a descriptor of another process is root's to take")
	}
	before := descriptors(t)
	require.NoError(t, Probe(t.Context()))
	require.Equal(t, before, descriptors(t))
	require.NotZero(t, os.Getppid(), "the filter concerns no other thread")
}
