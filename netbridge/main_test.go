package netbridge

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/netbridge/egress"
)

// inOwnWorld is set in the process that has a network and a mount namespace of
// its own: whatever the tests leave behind would end with it, and the machine's
// own links, rules, sysctls and mounts are out of reach.
const inOwnWorld = "POLIS_NETBRIDGE_TEST_WORLD"

func TestMain(m *testing.M) {
	if os.Geteuid() != 0 || os.Getenv(inOwnWorld) != "" {
		if os.Getenv(inOwnWorld) != "" {
			if err := prepareWorld(); err != nil {
				fmt.Fprintln(os.Stderr, "prepare the test's namespaces:", err)
				os.Exit(1)
			}
		}
		os.Exit(m.Run())
	}
	// The parent's death signal is tied to the thread that started the child.
	runtime.LockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inOwnWorld+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
	}
	if err := cmd.Run(); err != nil {
		if code := cmd.ProcessState.ExitCode(); code > 0 {
			os.Exit(code)
		}
		fmt.Fprintln(os.Stderr, "run the tests in their own namespaces:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func prepareWorld() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	h, err := hostHandle()
	if err != nil {
		return err
	}
	defer h.Close()
	lo, err := h.LinkByName("lo")
	if err != nil {
		return err
	}
	return h.LinkSetUp(lo)
}

// needKernel skips without root, and fails where a skip would go unnoticed.
func needKernel(t testing.TB) {
	t.Helper()
	if os.Getenv(inOwnWorld) != "" {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("needs root to make network namespaces, and CI must not skip this")
	}
	t.Skip("needs root to make network namespaces")
}

func testLog(t testing.TB) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

// newBridge is a set-up bridge of an instance named after the test, removed
// at its end.
func newBridge(t testing.TB, change ...func(*Config)) *Bridge {
	t.Helper()
	needKernel(t)
	dir := t.TempDir()
	cfg := Config{
		Instance: t.Name(), NetnsDir: filepath.Join(dir, "netns"), LockFile: filepath.Join(dir, "lock"),
		Log: testLog(t),
	}
	for _, c := range change {
		c(&cfg)
	}
	b, err := New(cfg)
	require.NoError(t, err)
	require.NoError(t, b.EnsureShared(t.Context()))
	t.Cleanup(func() { require.NoError(t, b.RemoveShared(context.Background())) })
	return b
}

// answered has the agents of a test whose refusals are read already.
var answered sync.Map

// ensure makes an agent's network and opens it to the internet.
func ensure(t testing.TB, b *Bridge, agent string) (Endpoint, *NS) {
	t.Helper()
	ep, err := b.Ensure(t.Context(), agent)
	require.NoError(t, err)
	open(t, ep, nil, egress.Open)
	key := [2]any{t.Name(), ep.Link}
	if _, twice := answered.LoadOrStore(key, true); !twice {
		readRefusals(t, ep, func(Refusal) {})
		t.Cleanup(func() { answered.Delete(key) })
	}
	ns, err := OpenNS(ep.NetNS)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ns.Close()) })
	return ep, ns
}

// readRefusals is what a shim does for its agent. The packets that are refused
// wait for it.
func readRefusals(t testing.TB, ep Endpoint, tell func(Refusal)) {
	t.Helper()
	r := &Refusals{Addr: ep.Addr, Log: testLog(t)}
	require.NoError(t, r.Open())
	require.NoError(t, Gate{Table: ep.Table, Link: ep.Link, Addr: ep.Addr}.LogTo(r.Queue))
	done := make(chan error, 1)
	go func() { done <- r.Run(context.Background(), tell) }()
	t.Cleanup(func() {
		require.NoError(t, r.Close())
		require.NoError(t, <-done)
	})
}

// open gives an agent a policy.
func open(t testing.TB, ep Endpoint, private []string, entries ...string) (Gate, Egress) {
	t.Helper()
	var e Egress
	var err error
	e.Policy, err = egress.Parse(entries)
	require.NoError(t, err)
	e.Private, err = egress.ParsePrivate(private)
	require.NoError(t, err)
	g := Gate{Table: ep.Table, Link: ep.Link, Addr: ep.Addr}
	require.NoError(t, g.Set(t.Context(), e, nil, nil))
	return g, e
}
