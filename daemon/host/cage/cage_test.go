package cage

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMain is also the program that the tests start in a cage.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "try" {
		os.Exit(try(os.Args[2], os.Args[3:]))
	}
	os.Exit(m.Run())
}

// try does one thing and says what the kernel said of it.
func try(what string, args []string) int {
	var err error
	switch what {
	case "write":
		err = os.WriteFile(args[0], []byte("x"), 0o600)
	case "remove":
		err = os.Remove(args[0])
	case "truncate":
		err = os.Truncate(args[0], 0)
	case "mkfifo":
		err = unix.Mkfifo(args[0], 0o600)
	case "read":
		_, err = os.ReadFile(args[0])
	case "exec":
		err = syscall.Exec(args[0], args, nil)
	case "fork":
		_, _, e := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if e != 0 {
			err = e
		}
	case "socket":
		_, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	case "inet":
		_, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	case "mount":
		err = unix.Mount("", args[0], "tmpfs", 0, "")
	case "namespace":
		err = unix.Unshare(unix.CLONE_NEWUSER)
	case "trace":
		err = unix.PtraceAttach(os.Getppid())
	case "memfd":
		_, err = unix.MemfdCreate("x", 0)
	case "keys":
		_, err = unix.KeyctlInt(unix.KEYCTL_GET_KEYRING_ID, unix.KEY_SPEC_SESSION_KEYRING, 0, 0, 0)
	case "limits":
		var b []byte
		if b, err = os.ReadFile("/proc/self/limits"); err == nil {
			_, err = os.Stdout.Write(b)
		}
	case "nothing":
	default:
		panic(what)
	}
	if err != nil {
		os.Stdout.WriteString(err.Error())
		return 1
	}
	return 0
}

// run starts the test's own program in a cage, or outside if that is nil.
func run(t *testing.T, c *Cage, what ...string) (string, bool) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, append([]string{"try"}, what...)...)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if c != nil {
		require.NoError(t, c.Start(cmd))
	} else {
		require.NoError(t, cmd.Start())
	}
	err = cmd.Wait()
	return out.String(), err == nil
}

func TestACageHolds(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte("y"), 0o700))
		return path
	}
	script := file("script")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\nexit 0\n"), 0o700))
	root := map[string]bool{"mount": true}
	for name, what := range map[string][]string{
		"writing a file":        {"write", filepath.Join(dir, "new")},
		"overwriting one":       {"write", file("old")},
		"removing one":          {"remove", file("gone")},
		"truncating one":        {"truncate", file("cut")},
		"a shell":               {"exec", "/bin/sh", "-c", ":"},
		"a script":              {"exec", script},
		"a program":             {"exec", "/bin/true"},
		"a process":             {"fork"},
		"a socket":              {"socket"},
		"a socket of IP":        {"inet"},
		"a mount":               {"mount", t.TempDir()},
		"a user namespace":      {"namespace"},
		"a file without a path": {"memfd"},
		"keys":                  {"keys"},
	} {
		t.Run(name, func(t *testing.T) {
			out, ok := run(t, &Cage{}, what...)
			require.False(t, ok, "%v was allowed: %s", what, out)
			require.True(t, strings.Contains(out, unix.EPERM.Error()) || strings.Contains(out, unix.EACCES.Error()), out)
			if root[what[0]] && os.Geteuid() != 0 || what[0] == "namespace" {
				return // outside it depends on the machine
			}
			out, ok = run(t, nil, what...)
			if what[0] == "mount" {
				require.NoError(t, unix.Unmount(what[1], unix.MNT_DETACH))
			}
			require.True(t, ok, "outside of the cage %v is refused too: %s", what, out)
		})
	}
}

func TestACageWritesOnlyInItsDirectories(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	c := &Cage{Write: []string{dir, filepath.Join(dir, "not there")}}
	out, ok := run(t, c, "write", filepath.Join(dir, "f"))
	require.True(t, ok, out)
	out, ok = run(t, c, "remove", filepath.Join(dir, "f"))
	require.True(t, ok, out)
	out, ok = run(t, c, "mkfifo", filepath.Join(dir, "p"))
	require.False(t, ok, out)
	// A link out of it leads nowhere, and one in its place is not followed.
	require.NoError(t, os.Symlink(other, filepath.Join(dir, "out")))
	out, ok = run(t, c, "write", filepath.Join(dir, "out", "f"))
	require.False(t, ok, out)
	out, ok = run(t, &Cage{Write: []string{filepath.Join(dir, "out")}}, "write", filepath.Join(other, "f"))
	require.False(t, ok, out)
	require.NoFileExists(t, filepath.Join(other, "f"))
	out, ok = run(t, c, "read", "/etc/passwd")
	require.True(t, ok, out)
}

func TestOnlyNamedProgramsAreStarted(t *testing.T) {
	dir := t.TempDir()
	c := &Cage{Programs: []string{"/bin/true"}, Write: []string{dir}}
	out, ok := run(t, c, "fork")
	require.True(t, ok, out)
	out, ok = run(t, c, "exec", "/bin/sh", "-c", ":")
	require.False(t, ok, out)
	out, ok = run(t, c, "exec", "/bin/true")
	require.True(t, ok, out)
	out, ok = run(t, c, "socket")
	require.False(t, ok, out)
	out, ok = run(t, c, "write", filepath.Join(dir, "f"))
	require.True(t, ok, out)
	require.FileExists(t, filepath.Join(dir, "f"), "the noexec mount shows another directory")
}

// TestTheLoaderLoadsNothingWritable: the dynamic loader must be executable, and
// loads whatever file it is given, unless that is where no code may come from.
func TestTheLoaderLoadsNothingWritable(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	sh, err := exec.LookPath("cat")
	require.NoError(t, err)
	loader, err := loaderOf(sh)
	require.NoError(t, err)
	dir := t.TempDir()
	evil := filepath.Join(dir, "evil")
	b, err := os.ReadFile(sh)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(evil, b, 0o755))
	start := func(c *Cage) (string, error) {
		// The loader is a program of this cage, as it is that of every git.
		cmd := exec.CommandContext(t.Context(), loader, evil, "/etc/hostname")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		require.NoError(t, c.Start(cmd))
		err := cmd.Wait()
		return out.String(), err
	}
	out, err := start(&Cage{Write: []string{dir}})
	require.NoError(t, err, "the way exists, and only the mount closes it: %s", out)
	out, err = start(&Cage{Write: []string{dir}, Programs: []string{loader}})
	require.Error(t, err, out)
	require.Contains(t, out, "evil")
}

func TestLimitsAreSet(t *testing.T) {
	l := &Limits{AddressSpace: 2 << 30, Data: 1 << 30, FileSize: 1 << 20, CPU: 7 * time.Second}
	out, ok := run(t, &Cage{Limits: l}, "limits")
	require.True(t, ok, out)
	for what, want := range map[string]string{"Max address space": "2147483648", "Max data size": "1073741824", "Max file size": "1048576", "Max cpu time": "7", "Max core file size": "0"} {
		_, rest, ok := strings.Cut(out, what)
		require.True(t, ok, out)
		require.Equal(t, []string{want, want}, strings.Fields(rest)[:2], what)
	}
}

// TestNoThreadKeepsACage: the process that starts programs in cages is in none.
func TestNoThreadKeepsACage(t *testing.T) {
	// What the tests themselves were started with.
	nnp, _, e := unix.Syscall6(unix.SYS_PRCTL, unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0, 0)
	require.Zero(t, e)
	for range 30 {
		out, ok := run(t, &Cage{}, "nothing")
		require.True(t, ok, out)
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		tasks, err := os.ReadDir("/proc/self/task")
		require.NoError(c, err)
		for _, task := range tasks {
			status, err := os.ReadFile("/proc/self/task/" + task.Name() + "/status")
			if os.IsNotExist(err) {
				continue
			}
			require.NoError(c, err)
			require.Contains(c, string(status), fmt.Sprintf("NoNewPrivs:\t%d\n", nnp), "thread %s", task.Name())
		}
	}, 30*time.Second, 10*time.Millisecond)
}

func TestScriptsAreRefused(t *testing.T) {
	script := filepath.Join(t.TempDir(), "git")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755))
	err := (&Cage{}).Start(exec.CommandContext(t.Context(), script))
	require.ErrorContains(t, err, script)
	require.NoError(t, Probe())
}

func BenchmarkStart(b *testing.B) {
	for name, start := range map[string]func(*exec.Cmd) error{"plain": (*exec.Cmd).Start, "caged": (&Cage{Write: []string{"/tmp"}}).Start, "children": (&Cage{Programs: []string{"/bin/true"}, Write: []string{"/tmp"}}).Start} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				cmd := exec.CommandContext(b.Context(), "true")
				if err := start(cmd); err != nil {
					b.Fatal(err)
				}
				if err := cmd.Wait(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
