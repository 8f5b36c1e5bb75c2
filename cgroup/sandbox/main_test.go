//go:build seccomp

package sandbox

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/cgroup"
	"polis/internal/need"
)

func TestMain(m *testing.M) {
	Main()
	if part := os.Getenv(insideEnv); part != "" {
		insideMain(part) // does not return
	}
	if cfg := os.Getenv(nestedEnv); cfg != "" {
		if err := nestedMain(cfg); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if cfg := os.Getenv(parentEnv); cfg != "" {
		parentMain(cfg) // does not return
	}
	os.Exit(m.Run())
}

// needRoot skips a test that needs the real kernel's privileges, and fails it
// where a skip would hide that nothing was tested.
func needRoot(t testing.TB) {
	t.Helper()
	need.Root(t)
}

const (
	testUID = 23451
	testGID = 23452
)

// testConfig is a sandbox with everything of its own below a temporary directory.
func testConfig(t testing.TB) Config {
	t.Helper()
	needRoot(t)
	dir := t.TempDir()
	own := func(name string) string {
		p := filepath.Join(dir, name)
		require.NoError(t, os.Mkdir(p, 0o755))
		require.NoError(t, os.Chown(p, testUID, testGID))
		return p
	}
	id := fmt.Sprintf("t%d-%d", os.Getpid(), time.Now().UnixNano()%1e9)
	return Config{
		ID:        id,
		StateDir:  filepath.Join(dir, "state"),
		RootfsDir: filepath.Join(dir, "rootfs"),
		UID:       testUID, GID: testGID, User: "agent", Home: "/home/agent",
		HomeDir:    own("home"),
		ScratchDir: own("scratch"),
		RunDir:     own("run"),
		Hostname:   "claude",
		CgroupPath: "/polis-test-" + id,
		Limits:     cgroup.Limits{MemoryBytes: 256 << 20, Pids: 200, CPUWeight: 100},

		ReportDenied: true,
	}
}

// create makes a sandbox and destroys it at the end of the test, which fails
// if anything is left.
func create(t testing.TB, cfg Config) *Sandbox {
	t.Helper()
	s, err := Create(context.Background(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		require.NoError(t, s.Destroy(ctx))
		requireGone(t, cfg)
	})
	return s
}

func requireGone(t testing.TB, cfg Config) {
	t.Helper()
	require.NoFileExists(t, filepath.Join(cfg.StateDir, cfg.ID))
	require.NoDirExists(t, supervisorDir(cfg.StateDir, cfg.ID))
	require.NoDirExists(t, cfg.RootfsDir)
	host, err := cgroup.Detect()
	require.NoError(t, err)
	g, err := host.Group(cfg.CgroupPath)
	require.NoError(t, err)
	require.False(t, g.Exists(), "cgroup is left")
	b, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	require.NotContains(t, string(b), filepath.Dir(cfg.RootfsDir), "mount is left")
}

// run executes a program inside and returns what it wrote to both outputs and
// its exit code.
func run(t testing.TB, s *Sandbox, args ...string) (string, int) {
	t.Helper()
	return runProcess(t, s, Process{Args: args})
}

func runProcess(t testing.TB, s *Sandbox, p Process) (string, int) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	p.Stdout, p.Stderr = w, w
	proc, err := s.Start(p)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	out := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(r)
		out <- string(b)
	}()
	select {
	case <-proc.Done():
	case <-time.After(60 * time.Second):
		_ = proc.Signal(unix.SIGKILL)
		t.Fatalf("%v does not end", p.Args)
	}
	code, err := proc.Wait()
	require.NoError(t, err)
	select {
	case text := <-out:
		return strings.TrimSpace(text), code
	case <-time.After(time.Minute):
		t.Fatalf("%v left its output open", p.Args)
		return "", 0
	}
}

// sh runs a shell script that must succeed.
func sh(t testing.TB, s *Sandbox, script string) string {
	t.Helper()
	out, code := run(t, s, "/bin/sh", "-c", script)
	require.Equal(t, 0, code, "%s: %s", script, out)
	return out
}
