package fusefs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
)

const (
	crowdCallers = 10
	crowdEach    = 100
	// crowdThreads bounds the threads of a server with a crowd that waits.
	crowdThreads = 40
	crowdWait    = 90 * time.Second
)

// A thousand opens of one view wait for a lease. The server has few threads meanwhile and answers
// everything else; signals that end nobody and the freezer fail none, a killed caller leaves at once,
// and each of the rest is answered once.
func TestACrowdThatWaitsUsesNoThreads(t *testing.T) {
	needFUSE(t)
	for _, over := range []string{"device", "rings"} {
		t.Run(over, func(t *testing.T) {
			c := helper(t, "crowd", t.TempDir(), t.TempDir(), over)
			c.Env = append(c.Env, "FUSEFS_CATCH=1")
			out, err := c.Output()
			require.NoError(t, err, string(out))
			t.Log(string(out))
		})
	}
}

// opens opens a file in n threads at once and prints each result.
func opens(path, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	signal.Notify(make(chan os.Signal, 9), syscall.SIGURG, syscall.SIGCHLD)
	results := make(chan error, n)
	for range n {
		go func() {
			fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
			if err == nil {
				err = unix.Close(fd)
			}
			results <- err
		}()
	}
	for range n {
		fmt.Println(okText(<-results)) //nolint:forbidigo // its output
	}
	return nil
}

type caller struct {
	cmd *exec.Cmd
	out io.ReadCloser
}

// results are the lines of a caller that has ended, counted.
func (c *caller) results() (map[string]int, error) {
	lines := map[string]int{}
	s := bufio.NewScanner(c.out)
	for s.Scan() {
		lines[s.Text()]++
	}
	return lines, errors.Join(s.Err(), c.cmd.Wait())
}

// signal sends a signal to every thread.
func (c *caller) signal(sig syscall.Signal) error {
	pid := c.cmd.Process.Pid
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, d := range threads {
		tid, _ := strconv.Atoi(d.Name()) //nolint:errcheck // the kernel's
		if e := unix.Tgkill(pid, tid, sig); e != nil && !errors.Is(e, unix.ESRCH) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// crowdView is a view whose writes to "parked" wait to be let go.
type crowdView struct {
	fs      *FS
	g       *testGuard
	mnt     string
	release chan struct{}
}

func (v *crowdView) until(what string, f func() bool) error {
	for end := time.Now().Add(crowdWait); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("%s: not after %s; %d wait, %v", what, crowdWait, v.fs.Deferred(), v.fs.Requests())
		}
	}
	return nil
}

func (v *crowdView) open(n int) (*caller, error) {
	c := exec.Command("/proc/self/exe", filepath.Join(v.mnt, "parked"), strconv.Itoa(n)) //nolint:noctx // ends when its opens do
	c.Env, c.Dir, c.Stderr = append(os.Environ(), "FUSEFS_HELPER=opens"), "/", os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &caller{c, out}, c.Start()
}

func (v *crowdView) mount(back, mnt string, rings bool) error {
	v.mnt, v.release, v.g = mnt, make(chan struct{}), &testGuard{}
	for _, name := range []string{"parked", "free"} {
		if err := os.WriteFile(filepath.Join(back, name), []byte("text"), 0o644); err != nil {
			return err
		}
	}
	v.g.write = func(ctx context.Context, _ Caller, _ Op, t []Target) syscall.Errno {
		if t[0].Path != "parked" {
			return 0
		}
		ended := false
		e := Wait(ctx, func() {
			select {
			case <-v.release:
			case <-ctx.Done():
				ended = true
			}
		})
		if e == 0 && ended {
			e = syscall.EINTR
		}
		return e
	}
	root, err := unix.Open(back, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer backing.Close(root)
	v.fs, err = New(Config{Roots: []int{root}, Guard: v.g, Mountpoint: mnt, FsName: "polis-test", NoRing: !rings, Log: slog.Default()})
	if err != nil {
		return err
	}
	return v.fs.Mount(context.Background())
}

// crowd serves args[0] at args[1], over the transport args[2], to callers that wait.
func crowd(args []string) (err error) {
	runtime.LockOSThread() // the callers end with this thread
	v := &crowdView{}
	if err := v.mount(args[0], args[1], args[2] == "rings"); err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), crowdWait)
		defer cancel()
		err = errors.Join(err, v.fs.Unmount(ctx))
	}()
	before, idle := runtime.NumGoroutine(), resident()
	callers := make([]*caller, crowdCallers)
	for i := range callers {
		if callers[i], err = v.open(crowdEach); err != nil {
			return err
		}
	}
	if err := v.until("all wait", func() bool { return v.fs.Deferred() == crowdCallers*crowdEach }); err != nil {
		return err
	}
	fmt.Println((resident()-idle)/(crowdCallers*crowdEach), "bytes of memory for each") //nolint:forbidigo // the parent shows it
	if err := v.crowded(); err != nil {
		return err
	}
	if err := v.disturb(callers); err != nil {
		return err
	}
	close(v.release)
	for i, c := range callers {
		got, err := c.results()
		if i == 0 { // killed
			if err == nil || len(got) > 0 {
				return fmt.Errorf("the killed caller: %v, %v", got, err)
			}
			continue
		}
		if want := map[string]int{"ok": crowdEach}; err != nil || got["ok"] != crowdEach || len(got) != 1 {
			return fmt.Errorf("caller %d: %v %w, not %v", i, got, err, want)
		}
	}
	return errors.Join(
		v.until("none waits", func() bool { return v.fs.Deferred() == 0 }),
		v.until("no ticket is left", func() bool { return v.g.tickets() == 0 }),
		// Readers of rings do not exit.
		v.until("no goroutine is left", func() bool { return runtime.NumGoroutine() <= before+crowdThreads }),
		v.free())
}

// resident is the memory of this process, in bytes.
func resident() int {
	b, _ := os.ReadFile("/proc/self/statm") //nolint:errcheck // the kernel's
	var size, pages int
	_, _ = fmt.Sscan(string(b), &size, &pages) //nolint:errcheck // as above
	return pages * os.Getpagesize()
}

// crowded checks the server while all wait, and that one above the bound is refused.
func (v *crowdView) crowded() error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	fmt.Println(len(threads), "threads") //nolint:forbidigo // the parent shows it
	if len(threads) >= crowdThreads {
		return fmt.Errorf("%d threads for %d callers that wait", len(threads), crowdCallers*crowdEach)
	}
	if err := v.free(); err != nil {
		return err
	}
	const limit = 1024
	more, err := v.open(limit - crowdCallers*crowdEach + 16)
	if err != nil {
		return err
	}
	if err := v.until("the bound is reached", func() bool { return v.fs.Deferred() == limit }); err != nil {
		return err
	}
	refused := bufio.NewReader(more.out)
	for range 16 {
		if line, err := refused.ReadString('\n'); strings.TrimSpace(line) != errnoText(unix.EAGAIN) {
			return fmt.Errorf("above the bound: %q %w", line, err)
		}
	}
	if err := errors.Join(v.free(), more.cmd.Process.Kill()); err != nil {
		return err
	}
	_ = more.cmd.Wait() // killed
	return v.until("a killed caller's opens end", func() bool { return v.fs.Deferred() == crowdCallers*crowdEach })
}

// free does what needs no wait, in another process.
func (v *crowdView) free() error {
	for range 4 {
		c := exec.Command("/proc/self/exe", filepath.Join(v.mnt, "free")) //nolint:noctx // does not wait
		c.Env, c.Dir, c.Stderr = append(os.Environ(), "FUSEFS_HELPER=append"), "/", os.Stderr
		if err := c.Run(); err != nil {
			return fmt.Errorf("another operation: %w", err)
		}
	}
	return nil
}

// disturb kills the first caller, and disturbs others in ways that end none.
func (v *crowdView) disturb(callers []*caller) error {
	if err := callers[0].cmd.Process.Kill(); err != nil {
		return err
	}
	for i, sig := range []syscall.Signal{syscall.SIGURG, syscall.SIGCHLD, syscall.SIGSTOP} {
		if err := callers[i+1].signal(sig); err != nil {
			return err
		}
	}
	thaw, err := freeze(callers[4].cmd.Process.Pid)
	if err != nil {
		return err
	}
	// The handled signals and the kill have each interrupted all threads of a caller.
	err = errors.Join(
		v.until("the interrupts have come", func() bool { return v.fs.Requests()["INTERRUPT"] >= 3*crowdEach }),
		v.until("the killed caller's opens end", func() bool { return v.fs.Deferred() == (crowdCallers-1)*crowdEach }))
	var polled sync.WaitGroup
	polled.Go(func() { time.Sleep(10 * interruptPoll) }) // the rest is checked, and stays
	polled.Wait()
	if n := v.fs.Deferred(); n != (crowdCallers-1)*crowdEach {
		err = errors.Join(err, fmt.Errorf("%d opens wait, not those of all callers that live", n))
	}
	return errors.Join(err, thaw(), callers[3].signal(syscall.SIGCONT))
}

// freeze freezes a process, where there is a freezer.
func freeze(pid int) (thaw func() error, err error) {
	const v1, v2 = "/sys/fs/cgroup/freezer", "/sys/fs/cgroup"
	dir, file, on, off := v2, "cgroup.freeze", "1", "0"
	if _, err := os.Stat(v1); err == nil {
		dir, file, on, off = v1, "freezer.state", "FROZEN", "THAWED"
	}
	dir = filepath.Join(dir, fmt.Sprintf("polis-crowd-%d", pid))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	put := func(name, text string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0) }
	if err := errors.Join(put("cgroup.procs", strconv.Itoa(pid)), put(file, on)); err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	return func() error {
		err := put(file, off)
		up := filepath.Join(filepath.Dir(dir), "cgroup.procs")
		return errors.Join(err, os.WriteFile(up, []byte(strconv.Itoa(pid)), 0), os.Remove(dir))
	}, nil
}
