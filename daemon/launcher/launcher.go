package launcher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Fork starts shims directly. The zero value is not usable: set Shim.
type Fork struct {
	// Shim is the path of the polis-shim program.
	Shim string

	mu    sync.Mutex
	found map[string]process // by the directory of their spec
	at    time.Time          // when they were found
}

// Name is what status shows.
func (f *Fork) Name() string { return "fork" }

// Start runs a shim for the spec file and returns when it has been started,
// not when it is ready. The shim gets its own session, no controlling terminal, and its
// errors in shim.log beside the spec.
func (f *Fork) Start(_ context.Context, _ string, spec string) error {
	dir := filepath.Dir(spec)
	log, err := os.OpenFile(filepath.Join(dir, "shim.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("start shim: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(f.Shim, "--spec", spec) //nolint:noctx // must outlive the daemon
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "GOTRACEBACK=single"}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start shim: %w", err)
	}
	pidfile := filepath.Join(dir, "shim.pid")
	born, _, err := born(cmd.Process.Pid)
	if err == nil {
		err = os.WriteFile(pidfile, fmt.Appendf(nil, "%d %d\n", cmd.Process.Pid, born), 0o600)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("start shim: %w", err), cmd.Process.Kill(), cmd.Wait())
	}
	// Owned by the process itself: it ends when the shim does, and the
	// daemon's end does not matter to it (init reaps then).
	go cmd.Wait() //nolint:errcheck // the exit status is read from the shim's own report
	return nil
}

// Alive reports whether the shim that was started for dir still runs, also if its files
// are gone.
func (f *Fork) Alive(_ context.Context, _ string, dir string) (bool, error) {
	pid, err := f.pid(dir)
	return pid != 0, err
}

// pid returns the process number if it still is the shim for dir, else 0: a
// number may have been given to another process since. Without a file that names one,
// the process is looked for.
func (f *Fork) pid(dir string) (int, error) {
	b, err := os.ReadFile(filepath.Join(dir, "shim.pid"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	words := strings.Fields(string(b))
	if len(words) == 0 {
		return f.find(dir) // removed, or cut short by a crash
	}
	pid, err := strconv.Atoi(words[0])
	if err != nil || pid <= 1 {
		return f.find(dir)
	}
	at, over, err := born(pid)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) || over {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look for shim %d: %w", pid, err)
	}
	if len(words) == 1 {
		return old(pid, dir), nil
	}
	if words[1] != strconv.FormatUint(at, 10) {
		return 0, nil
	}
	return pid, nil
}

// old is pid for a file of an earlier version, which has the number alone.
func old(pid int, dir string) int {
	cmd, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || (len(cmd) > 0 && !strings.Contains(string(cmd), filepath.Join(dir, "spec.json"))) {
		return 0
	}
	return pid
}

// born returns when a process began, in clock ticks since boot, and whether it has
// exited and only waits for its parent (proc_pid_stat(5)). The kernel always has both,
// unlike the command line, which is in the memory of the process.
func born(pid int) (at uint64, over bool, err error) {
	now, at, err := state(pid)
	return at, now == "Z" || now == "X", err
}

// state is the letter of what a process does, and when it began.
func state(pid int) (now string, at uint64, err error) {
	// Not os.ReadFile, which makes three times as many system calls: polisd reads this of every
	// shim all the time.
	path := fmt.Sprintf("/proc/%d/stat", pid)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", 0, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	b := make([]byte, 1024) // its 52 numbers and a name of 64 bytes fit
	n, err := unix.Read(fd, b)
	if err != nil {
		return "", 0, &os.PathError{Op: "read", Path: path, Err: err}
	}
	b = b[:n]
	// The name before may contain anything.
	words := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(words) < 20 {
		return "", 0, fmt.Errorf("/proc/%d/stat is cut short", pid)
	}
	at, err = strconv.ParseUint(words[19], 10, 64)
	return words[0], at, err
}

// Stop asks the shim to end (TERM) and kills it when ctx's deadline or grace
// is over. It returns when the process is gone.
func (f *Fork) Stop(ctx context.Context, _ string, dir string, grace time.Duration) error {
	pid, err := f.pid(dir)
	if err != nil || pid == 0 {
		return err
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stop shim: %w", err)
	}
	defer unix.Close(fd)
	if again, err := f.pid(dir); err != nil || again != pid {
		return err
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("stop shim: %w", err)
	}
	if done, err := waitPidfd(ctx, fd, grace); done || err != nil {
		return err
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill shim: %w", err)
	}
	// A killed process ends even when ctx is over: give it its own bound.
	done, err := waitPidfd(context.WithoutCancel(ctx), fd, 5*time.Second)
	if err == nil && !done {
		err = fmt.Errorf("shim %d does not die", pid)
	}
	return err
}

func waitPidfd(ctx context.Context, fd int, d time.Duration) (bool, error) {
	end := time.Now().Add(d)
	for ctx.Err() == nil {
		left := time.Until(end)
		if left <= 0 {
			return false, nil
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(min(left, 50*time.Millisecond)/time.Millisecond)+1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false, fmt.Errorf("wait for shim: %w", err)
		}
		if n > 0 {
			return true, nil
		}
	}
	return false, nil
}
