package command

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/internal/need"
)

// traced is the argument of the test binary that has a program trace it, and tracer that of this program. What follows
// it is the file with the number of the tracer.
const (
	traced = "--traced"
	tracer = "--tracer"
)

// TestMain lets the test binary be a command whose user keeps it from being reaped.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && (os.Args[1] == traced || os.Args[1] == tracer) {
		if err := map[string]func(string) error{traced: beTraced, tracer: trace}[os.Args[1]](os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		time.Sleep(5 * time.Minute) // it is killed before
	}
	os.Exit(m.Run())
}

func beTraced(file string) error {
	// Where Yama restricts who may trace it, each program of its user may. Elsewhere this fails.
	_ = unix.Prctl(unix.PR_SET_PTRACER, ^uintptr(0), 0, 0, 0) //nolint:errcheck // see above
	cmd := exec.CommandContext(context.Background(), "/proc/self/exe", tracer, file)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it does not end with the group
	return cmd.Start()
}

// trace traces the parent and never waits: only the tracer sees that it has ended.
func trace(file string) error {
	runtime.LockOSThread()
	if err := unix.PtraceSeize(os.Getppid()); err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// TestACommandThatCannotBeEndedIsNotWaitedFor: its user can keep it from being reaped. Until it is, the user gets no
// other one.
func TestACommandThatCannotBeEndedIsNotWaitedFor(t *testing.T) {
	for name, user := range map[string]*syscall.Credential{"as the caller": nil, "as another user": {Uid: 65534, Gid: 65534}} {
		t.Run(name, func(t *testing.T) {
			if user != nil {
				need.Root(t)
			}
			dir, err := os.MkdirTemp("/tmp", "polis-command-")
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
			require.NoError(t, os.Chmod(dir, 0o777))
			file := filepath.Join(dir, "tracer")
			pid := func() (n int) {
				text, _ := os.ReadFile(file)
				n, _ = strconv.Atoi(string(text))
				return n
			}
			t.Cleanup(func() {
				if n := pid(); n > 0 {
					_ = syscall.Kill(n, syscall.SIGKILL)
				}
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			done := make(chan error, 1)
			go func() {
				_, _, err := Command{Argv: []string{"x", traced, file}, Program: "/proc/self/exe", User: user, Timeout: time.Minute, MaxOutput: 100, Errors: true}.Run(ctx)
				done <- err
			}()
			require.Eventually(t, func() bool { return pid() > 0 }, 30*time.Second, 10*time.Millisecond, "it is traced")
			cancel(context.Canceled)
			select {
			case err = <-done:
			case <-time.After(endTime + 20*time.Second):
				require.Fail(t, "it is waited for")
			}
			require.ErrorIs(t, err, ErrUnended)
			require.ErrorIs(t, err, context.Canceled)

			next := sh("echo > " + dir + "/started")
			next.User = user
			_, _, err = next.Run(t.Context())
			require.ErrorIs(t, err, ErrUnended)
			require.NoFileExists(t, dir+"/started")
			if os.Geteuid() == 0 { // another user's runs
				other := sh("true")
				other.User = &syscall.Credential{Uid: 65533, Gid: 65533}
				_, _, err = other.Run(t.Context())
				require.NoError(t, err)
			}

			require.NoError(t, syscall.Kill(pid(), syscall.SIGKILL))
			require.Eventually(t, func() bool { _, _, err = next.Run(t.Context()); return err == nil }, 30*time.Second, 10*time.Millisecond, "it is reaped")
			require.Empty(t, strings.TrimSpace(children(t)), "no child is left")
		})
	}
}

// children are the processes that this one has to reap.
func children(t *testing.T) string {
	t.Helper()
	var all []byte
	files, err := filepath.Glob("/proc/self/task/*/children")
	require.NoError(t, err)
	for _, f := range files {
		b, _ := os.ReadFile(f) // the thread may have ended
		all = append(all, b...)
	}
	return string(all)
}
