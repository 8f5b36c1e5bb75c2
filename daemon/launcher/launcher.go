package launcher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Fork starts shims directly. The zero value is not usable: set Shim.
type Fork struct {
	// Shim is the path of the polis-shim program.
	Shim string
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
	if err := os.WriteFile(pidfile, []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
		return errors.Join(fmt.Errorf("start shim: %w", err), cmd.Process.Kill(), cmd.Wait())
	}
	// Owned by the process itself: it ends when the shim does, and the
	// daemon's end does not matter to it (init reaps then).
	go cmd.Wait() //nolint:errcheck // the exit status is read from the shim's own report
	return nil
}

// Alive says whether the shim that was started for dir still runs.
func (f *Fork) Alive(_ context.Context, _ string, dir string) (bool, error) {
	pid, err := f.pid(dir)
	return pid != 0, err
}

// pid returns the process number if it still is a shim for dir, else 0: a
// number may have been given to another process since.
func (f *Fork) pid(dir string) (int, error) {
	b, err := os.ReadFile(filepath.Join(dir, "shim.pid"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || pid <= 1 {
		return 0, nil //nolint:nilerr // cut short by a crash: nobody's number
	}
	if !strings.Contains(commandLine(pid), filepath.Join(dir, "spec.json")) {
		return 0, nil
	}
	return pid, nil
}

// execWait bounds the wait for a process that is between execve(2) having
// told its parent of success and having put its arguments in place.
const execWait = time.Second

// commandLine is the command line of a process, or empty if it is gone. A
// living program's is empty for a moment after its start: on a busy machine
// long enough to be taken for the end of it.
func commandLine(pid int) string {
	for end := time.Now().Add(execWait); ; {
		cmd, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			return ""
		}
		if len(cmd) > 0 || time.Now().After(end) {
			return string(cmd)
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return ""
		}
		// The state follows the name, which ends at the last parenthesis.
		_, state, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
		if state == "" || state[0] == 'Z' || state[0] == 'X' {
			return ""
		}
		runtime.Gosched()
	}
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
