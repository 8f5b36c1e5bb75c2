package launcher

import (
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
// are gone. One that was killed does not, whether it can end or not.
func (f *Fork) Alive(_ context.Context, _ string, dir string) (bool, error) {
	pid, err := f.pid(dir)
	if err != nil || pid == 0 {
		return false, err
	}
	dying, err := dying(pid)
	return !dying && err == nil, err
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
