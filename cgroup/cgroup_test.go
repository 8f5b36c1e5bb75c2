package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/internal/need"
)

// needRoot skips a test that needs to write to the machine's cgroups, and fails
// it where a skip would hide that nothing was tested.
func needRoot(t testing.TB) *Host {
	t.Helper()
	need.Root(t)
	h, err := Detect()
	require.NoError(t, err)
	return h
}

// group names a group of the test's own, which is gone at its end.
func group(t testing.TB, h *Host) *Group {
	t.Helper()
	g, err := h.Group(fmt.Sprintf("/polis-test-%d/%d", os.Getpid(), time.Now().UnixNano()))
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		require.NoError(t, g.Kill(ctx))
		require.NoError(t, g.Remove(ctx))
		require.False(t, g.Exists())
		parent, err := h.Group(path.Dir(g.Path))
		require.NoError(t, err)
		require.NoError(t, parent.RemoveIfEmpty())
	})
	return g
}

// start starts a program of the host in the group.
func start(t testing.TB, g *Group, args ...string) *exec.Cmd {
	t.Helper()
	// Stopped until it has been moved, so that everything it does is counted.
	cmd := exec.Command("/bin/sh", append([]string{"-c", `read go; exec "$@"`, "sh"}, args...)...)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-done })
	require.NoError(t, g.Join(cmd.Process.Pid))
	_, err = in.Write([]byte("\n"))
	require.NoError(t, err)
	return cmd
}

// requireEnded accepts a zombie: the test process reaps it, not the group.
func requireEnded(t testing.TB, pid int) {
	t.Helper()
	alive, err := alive(pid)
	require.NoError(t, err)
	require.False(t, alive, "process %d lives", pid)
}

func alive(pid int) (bool, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if gone(err) || errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	return !zombie.Match(b), err
}

var zombie = regexp.MustCompile(`State:\s+[ZX]`)

func TestGroupIsMadeLimitedAndRemoved(t *testing.T) {
	h := needRoot(t)
	g := group(t, h)
	require.False(t, g.Exists())
	_, err := g.Stats()
	require.ErrorIs(t, err, ErrNotFound)
	require.ErrorIs(t, g.Join(os.Getpid()), ErrNotFound)
	for range 2 { // idempotent
		require.NoError(t, g.Ensure(Limits{MemoryBytes: 64 << 20, Pids: 33, CPUWeight: 50}))
	}
	require.True(t, g.Exists())
	s, err := g.Stats()
	require.NoError(t, err)
	require.EqualValues(t, 64<<20, s.MemoryLimit)
	require.EqualValues(t, 33, s.PidsLimit)
	require.Zero(t, s.Pids)

	// Up and down, and no limit.
	for _, l := range []Limits{{MemoryBytes: 128 << 20, Pids: 50}, {MemoryBytes: 32 << 20, Pids: 20}, {}} {
		require.NoError(t, g.SetLimits(l))
		s, err = g.Stats()
		require.NoError(t, err)
		require.EqualValues(t, l.MemoryBytes, s.MemoryLimit)
		require.EqualValues(t, l.Pids, s.PidsLimit)
	}

	require.NoError(t, g.SetLimits(Limits{CPUWeight: 200, CPUPercent: 150}))
	require.Equal(t, "150000", quotaOf(t, g))
	require.NoError(t, g.SetLimits(Limits{}))
	require.NotEqual(t, "150000", quotaOf(t, g))

	names, err := h.List(path.Dir(g.Path))
	require.NoError(t, err)
	require.Equal(t, []string{path.Base(g.Path)}, names)
	for range 2 {
		require.NoError(t, g.Remove(t.Context()))
	}
	require.False(t, g.Exists())
	names, err = h.List(path.Dir(g.Path))
	require.NoError(t, err)
	require.Empty(t, names)
	names, err = h.List("/no-such-group")
	require.NoError(t, err)
	require.Empty(t, names)
}

// quotaOf is the processor time of a group in a period, as the kernel has it.
func quotaOf(t *testing.T, g *Group) string {
	hier, _ := g.host.controller(cpu)
	file := "cpu.cfs_quota_us"
	if hier.v2 {
		file = "cpu.max"
	}
	words, err := readFields(g.dir(hier), file)
	require.NoError(t, err)
	return words[0]
}

// TestAMemoryLimitBelowUse is refused by v1; the limit of before holds on.
func TestAMemoryLimitBelowUse(t *testing.T) {
	h := needRoot(t)
	g := group(t, h)
	require.NoError(t, g.Ensure(Limits{MemoryBytes: 64 << 20}))
	hier, _ := h.controller(memory)
	if hier.v2 {
		t.Skip("v2 kills")
	}
	start(t, g, "/bin/sh", "-c", "x=$(head -c 20000000 /dev/zero | tr '\\0' x); sleep 1000")
	require.Eventually(t, func() bool { n, err := g.MemoryNeed(); return err == nil && n > 18<<20 }, 20*time.Second, 10*time.Millisecond)
	require.ErrorIs(t, g.SetLimits(Limits{MemoryBytes: 8 << 20}), unix.EBUSY)
	s, err := g.Stats()
	require.NoError(t, err)
	require.EqualValues(t, 64<<20, s.MemoryLimit)
	require.NoError(t, g.SetLimits(Limits{MemoryBytes: 48 << 20}))
}

// TestASoftLimitIsWatched by the kernel: a group that passes it is reported, also after it fell below.
func TestASoftLimitIsWatched(t *testing.T) {
	h := needRoot(t)
	g := group(t, h)
	require.NoError(t, g.Ensure(Limits{MemoryBytes: 128 << 20}))
	w, err := g.WatchMemory(32 << 20)
	require.NoError(t, err)
	defer w.Close()
	passed := func(what string) {
		t.Helper()
		select {
		case <-w.Passed():
		case <-time.After(20 * time.Second):
			t.Fatal("not reported: " + what)
		}
	}
	for range 2 {
		hog := start(t, g, "/bin/sh", "-c", "x=$(head -c 48000000 /dev/zero | tr '\\0' x); sleep 1000")
		passed("the limit is passed")
		require.NoError(t, hog.Process.Kill())
		if hier, _ := h.controller(memory); !hier.v2 {
			passed("it falls below")
		}
		require.Eventually(t, func() bool { n, err := g.MemoryNeed(); return err == nil && n < 16<<20 }, 20*time.Second, 10*time.Millisecond)
		for len(w.Passed()) > 0 {
			<-w.Passed()
		}
	}
}

func TestUsage(t *testing.T) {
	h := needRoot(t)
	g := group(t, h)
	require.NoError(t, g.Ensure(Limits{CPUPercent: 10}))
	start(t, g, "/bin/sh", "-c", "exec 3</dev/null 4</dev/null; while :; do :; done")
	require.Eventually(t, func() bool {
		u, err := g.Usage()
		require.NoError(t, err)
		return u.Pids == 1 && u.CPU > 0 && u.Throttled > 0 && u.OpenFiles >= 5 && u.MemoryBytes > 0
	}, 20*time.Second, 10*time.Millisecond)
	none, err := h.Group("/no-such-group")
	require.NoError(t, err)
	_, err = none.Usage()
	require.ErrorIs(t, err, ErrNotFound)
}

func TestBadLimitsAreRefused(t *testing.T) {
	h := needRoot(t)
	g := group(t, h)
	for _, l := range []Limits{{MemoryBytes: -1}, {MemoryBytes: 1}, {Pids: -1}, {CPUWeight: 10001}, {CPUWeight: -1}, {CPUPercent: -1}, {CPUPercent: MaxCPUPercent + 1}, {IOWeight: -1}, {IOWeight: 1001}} {
		require.Error(t, g.Ensure(l), "%+v", l)
	}
}

func TestPathsAreValidated(t *testing.T) {
	h := &Host{}
	for _, p := range []string{"", "/", "x", "/x/", "/x/../y", "/..", "//x", "/x/./y", "/x\n", "/x\x00"} {
		_, err := h.Group(p)
		require.ErrorIs(t, err, ErrPath, "%q", p)
	}
	for _, n := range []string{"", ".", "..", "a/b", "a\nb", "/"} {
		_, err := Sub("/base", n)
		require.ErrorIs(t, err, ErrPath, "%q", n)
	}
	_, err := Sub("base", "x")
	require.ErrorIs(t, err, ErrPath)
	p, err := Sub("/polis.slice/polis-agent@x.service", "sandbox")
	require.NoError(t, err)
	require.Equal(t, "/polis.slice/polis-agent@x.service/sandbox", p)
	p, err = Sub("/", "polis-1")
	require.NoError(t, err)
	require.Equal(t, "/polis-1", p)
}

// Feature: multi-agent-workspaces, Property 28: Process Reaping on Removal
func TestKillReachesEveryProcess(t *testing.T) {
	host := needRoot(t)
	hosts := map[string]*Host{"as detected": host}
	// What a host without a v2 tree has to do: freeze and kill.
	if host.Mode == Hybrid {
		v1 := &Host{Mode: V1, hierarchies: slices.DeleteFunc(slices.Clone(host.hierarchies), func(h hierarchy) bool { return h.v2 })}
		hosts["v1 only"] = v1
		freezer := &Host{Mode: V1, hierarchies: slices.DeleteFunc(slices.Clone(v1.hierarchies), func(h hierarchy) bool {
			return slices.Contains(h.controllers, "freezer")
		})}
		hosts["v1 without freezer"] = freezer
	}
	for name, h := range hosts {
		t.Run(name, func(t *testing.T) {
			g := group(t, h)
			require.NoError(t, g.Ensure(Limits{}))
			// Ignores signals, daemonises twice, and keeps forking.
			start(t, g, "/bin/sh", "-c", `trap "" TERM HUP INT
				(setsid sh -c '(setsid sleep 1000 &) &' &)
				(setsid sh -c 'while :; do sleep 0.001; done' &)
				sleep 1000`)
			require.Eventually(t, func() bool {
				p, err := g.Procs()
				require.NoError(t, err)
				return len(p) >= 4
			}, 10*time.Second, 5*time.Millisecond)
			before, err := g.Procs()
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			require.NoError(t, g.Kill(ctx))
			left, err := g.Procs()
			require.NoError(t, err)
			require.Empty(t, left)
			for _, pid := range before {
				requireEnded(t, pid)
			}
			require.NoError(t, g.Kill(ctx), "an empty group")
			// It can be used again: it is not left frozen.
			cmd := start(t, g, "sleep", "1000")
			require.NoError(t, g.Kill(ctx))
			requireEnded(t, cmd.Process.Pid)
			require.NoError(t, g.Remove(ctx))
			require.NoError(t, g.Kill(ctx), "no group")
		})
	}
}

func TestFrozenGroupIsKilled(t *testing.T) {
	h := needRoot(t)
	g := group(t, h)
	require.NoError(t, g.Ensure(Limits{}))
	start(t, g, "sleep", "1000")
	require.NoError(t, g.Freeze(true))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	require.NoError(t, g.Kill(ctx))
}

func TestChildGroupsAreKilledAndRemovedToo(t *testing.T) {
	h := needRoot(t)
	g := group(t, h)
	require.NoError(t, g.Ensure(Limits{}))
	child, err := h.Group(g.Path + "/a/b")
	require.NoError(t, err)
	if h.Mode == V2 {
		require.NoError(t, os.MkdirAll(child.dir(h.hierarchies[0]), 0o755))
	} else {
		require.NoError(t, child.Ensure(Limits{}))
	}
	cmd := start(t, child, "sleep", "1000")
	p, err := g.Procs()
	require.NoError(t, err)
	require.Equal(t, []int{cmd.Process.Pid}, p)

	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, g.Remove(short), ErrBusy)
	require.NoError(t, unix.Kill(cmd.Process.Pid, 0), "Remove does not kill")

	require.NoError(t, g.Kill(t.Context()))
	require.NoError(t, g.Remove(t.Context()))
	require.False(t, child.Exists())
}

func TestKillRefusesTheCaller(t *testing.T) {
	h := needRoot(t)
	i := slices.IndexFunc(h.hierarchies, func(h hierarchy) bool { return h.v2 })
	if i < 0 {
		t.Skip("no cgroup v2 tree")
	}
	// Only in the v2 tree, where the test process can be put back.
	only := &Host{Mode: Hybrid, hierarchies: h.hierarchies[i : i+1]}
	own, err := os.ReadFile("/proc/self/cgroup")
	require.NoError(t, err)
	home, err := (&Host{Mode: V2, hierarchies: only.hierarchies}).parseOwn(string(own))
	require.NoError(t, err)
	g := group(t, only)
	require.NoError(t, g.Ensure(Limits{}))
	require.NoError(t, g.Join(os.Getpid()))
	defer func() {
		require.NoError(t, writeFile(filepath.Join(h.hierarchies[i].root, home), "cgroup.procs", fmt.Sprint(os.Getpid())))
	}()
	require.ErrorIs(t, g.Kill(t.Context()), ErrSelf)
}

func TestKillEndsWithItsContext(t *testing.T) {
	h := needRoot(t)
	g := group(t, h)
	require.NoError(t, g.Ensure(Limits{}))
	start(t, g, "sleep", "1000")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, g.Kill(ctx), ErrBusy)
}

func TestRemoveIfEmptyKeepsWhatIsUsed(t *testing.T) {
	h := needRoot(t)
	g := group(t, h)
	require.NoError(t, g.Ensure(Limits{}))
	parent, err := h.Group(path.Dir(g.Path))
	require.NoError(t, err)
	require.NoError(t, parent.RemoveIfEmpty())
	require.True(t, g.Exists())
	start(t, g, "sleep", "1000")
	require.NoError(t, g.RemoveIfEmpty())
	require.True(t, g.Exists())
	require.NoError(t, g.Kill(t.Context()))
	require.Eventually(t, func() bool { return g.RemoveIfEmpty() == nil && !g.Exists() }, 30*time.Second, 5*time.Millisecond)
}

func TestPruneTakesOnlyEmptyGroupsThatAreNotSystemds(t *testing.T) {
	h := needRoot(t)
	base := fmt.Sprintf("/polis-test-%d-prune", os.Getpid())
	named := func(p string) *Group {
		g, err := h.Group(base + p)
		require.NoError(t, err)
		return g
	}
	t.Cleanup(func() {
		require.NoError(t, named("").Kill(context.Background()))
		require.NoError(t, named("").Remove(context.Background()))
	})
	one, two, below := named("/a/one"), named("/a/two"), named("/polis.slice/x.service/sandbox")
	for _, g := range []*Group{one, two, below} {
		require.NoError(t, g.Ensure(Limits{}))
	}
	require.NoError(t, one.Remove(t.Context()))
	require.NoError(t, one.Prune())
	require.True(t, named("/a").Exists(), "two is there")
	require.NoError(t, two.Remove(t.Context()))
	require.NoError(t, two.Prune())
	require.False(t, named("/a").Exists())
	require.True(t, named("").Exists())

	require.NoError(t, below.Remove(t.Context()))
	require.NoError(t, below.Prune())
	for _, hier := range h.hierarchies {
		_, err := os.Stat(named("/polis.slice/x.service").dir(hier))
		require.Equal(t, hier.systemd(), err == nil, hier.root)
	}
}

func TestEnsureAndPruneOfNeighbours(t *testing.T) {
	h := needRoot(t)
	base := fmt.Sprintf("/polis-test-%d-race", os.Getpid())
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			g, err := h.Group(fmt.Sprintf("%s/n%d", base, i))
			if err != nil {
				t.Error(err)
				return
			}
			for range 20 {
				if err := errors.Join(g.Ensure(Limits{}), g.Remove(t.Context()), g.Prune()); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wg.Wait()
	g, err := h.Group(base)
	require.NoError(t, err)
	require.False(t, g.Exists())
}

// Feature: multi-agent-workspaces, Property 15: Memory Limit Enforcement
func TestMemoryKillIsReported(t *testing.T) {
	h := needRoot(t)
	g := group(t, h)
	require.NoError(t, g.Ensure(Limits{MemoryBytes: 32 << 20, Pids: 50}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events, err := g.WatchOOM(ctx)
	require.NoError(t, err)
	var count uint64
	for range 2 {
		cmd := start(t, g, "/bin/sh", "-c", "exec tail /dev/zero")
		select {
		case e := <-events:
			require.Greater(t, e.Count, count)
			count = e.Count
			require.Contains(t, []int{cmd.Process.Pid, 0}, e.Pid)
			require.Contains(t, []string{"tail", ""}, e.Comm)
		case <-time.After(20 * time.Second):
			t.Fatal("no event")
		}
	}
	s, err := g.Stats()
	require.NoError(t, err)
	require.Equal(t, count, s.OOMKills)
	require.EqualValues(t, 2, s.OOMKills)
	reclaims, err := g.Reclaims()
	require.NoError(t, err)
	require.NotZero(t, reclaims)
	require.GreaterOrEqual(t, s.MemoryPeakBytes, uint64(16<<20))
	cancel()
	_, ok := <-events
	require.False(t, ok)
}

func TestWatchEndsWithTheGroup(t *testing.T) {
	h := needRoot(t)
	g := group(t, h)
	require.NoError(t, g.Ensure(Limits{MemoryBytes: 32 << 20}))
	events, err := g.WatchOOM(t.Context())
	require.NoError(t, err)
	require.NoError(t, g.Remove(t.Context()))
	select {
	case _, ok := <-events:
		require.False(t, ok)
	case <-time.After(time.Minute):
		t.Fatal("still watching")
	}
}

func TestPidsAreCountedAndLimited(t *testing.T) {
	h := needRoot(t)
	g := group(t, h)
	require.NoError(t, g.Ensure(Limits{Pids: 10}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	refused, err := g.WatchPids(ctx, nil)
	require.NoError(t, err)
	defer func() {
		select {
		case n := <-refused:
			require.Positive(t, n)
		case <-time.After(time.Minute):
			t.Error("a refused fork was not reported")
		}
		cancel()
		for range refused { // ends
		}
	}()
	start(t, g, "/bin/sh", "-c", "for i in $(seq 50); do sleep 1000 2>/dev/null & done 2>/dev/null; wait")
	// The kernel counts a process before it compares, and subtracts it again if it is refused.
	most := uint64(10 + runtime.NumCPU())
	require.Eventually(t, func() bool {
		s, err := g.Stats()
		require.NoError(t, err)
		require.LessOrEqual(t, s.Pids, most)
		return s.Pids > 5
	}, 10*time.Second, 5*time.Millisecond)
}

// The v2 tree of a hybrid host has no memory controller, which is what a unit
// without delegation looks like.
func TestMissingControllersAreAnError(t *testing.T) {
	h := needRoot(t)
	i := slices.IndexFunc(h.hierarchies, func(h hierarchy) bool { return h.v2 })
	if i < 0 || h.Mode == V2 {
		t.Skip("no v2 tree without controllers")
	}
	v2 := &Host{Mode: V2, hierarchies: h.hierarchies[i : i+1]}
	g := group(t, v2)
	err := g.Ensure(Limits{MemoryBytes: 64 << 20})
	var missing *ControllerError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, memory, missing.Controller)

	v1 := &Host{Mode: V1, hierarchies: slices.DeleteFunc(slices.Clone(h.hierarchies), func(h hierarchy) bool {
		return slices.Contains(h.controllers, memory) || slices.Contains(h.controllers, pids) || slices.Contains(h.controllers, cpu)
	})}
	g = group(t, v1)
	for want, l := range map[string]Limits{memory: {MemoryBytes: 1 << 30}, pids: {Pids: 5}, cpu: {CPUWeight: 5}} {
		require.ErrorAs(t, g.Ensure(l), &missing)
		require.Equal(t, want, missing.Controller)
	}
	require.NoError(t, g.Ensure(Limits{}))
	_, err = g.WatchOOM(t.Context())
	require.ErrorAs(t, err, &missing)
}

func TestEnterLeafMovesEveryProcess(t *testing.T) {
	h := needRoot(t)
	i := slices.IndexFunc(h.hierarchies, func(h hierarchy) bool { return h.v2 })
	if i < 0 {
		t.Skip("no cgroup v2 tree")
	}
	v2 := &Host{Mode: V2, hierarchies: h.hierarchies[i : i+1]}
	g := group(t, v2)
	require.NoError(t, os.MkdirAll(g.dir(v2.hierarchies[0]), 0o755))
	cmd := start(t, g, "/bin/sh", "-c", "sleep 1000 & sleep 1000")
	require.Eventually(t, func() bool { p, _ := g.Procs(); return len(p) == 3 }, 30*time.Second, 5*time.Millisecond)
	for range 2 { // idempotent
		leaf, err := v2.EnterLeaf(g.Path, "supervisor")
		require.NoError(t, err)
		require.Equal(t, g.Path+"/supervisor", leaf)
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", cmd.Process.Pid))
	require.NoError(t, err)
	require.Contains(t, string(b), "0::"+g.Path+"/supervisor\n")
	own, err := readPids(g.dir(v2.hierarchies[0]), "cgroup.procs")
	require.NoError(t, err)
	require.Empty(t, own)

	_, err = v2.EnterLeaf(g.Path, "../x")
	require.ErrorIs(t, err, ErrPath)
	base, err := (&Host{Mode: V1}).EnterLeaf("/x", "supervisor")
	require.NoError(t, err)
	require.Equal(t, "/x", base, "nothing to do elsewhere")
}

func TestOwnIsWhatTheKernelSays(t *testing.T) {
	h, err := Detect()
	if errors.Is(err, ErrNone) {
		t.Skip("no cgroups")
	}
	require.NoError(t, err)
	p, err := h.Own()
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(p, "/"), p)
}
