package shim

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/rules/approval"
	"polis/daemon/shim/leftover"
	"polis/daemon/store/events"
	"polis/fusefs/view"
)

// askingShim is a shim with questions and nothing else.
func askingShim(t testing.TB) *Shim { return newAskingShim(t, t.Context()) }

func newAskingShim(t require.TestingT, ctx context.Context) *Shim {
	s := &Shim{Spec: wire.Spec{Agent: "alice", Workspace: "w"}, Log: slog.New(slog.DiscardHandler), events: events.New(0), stopping: make(chan struct{}), ctx: ctx}
	s.live = newLive(&s.Spec)
	require.NoError(t, s.openApprovals())
	return s
}

// opened waits until so many questions are open.
func (s *Shim) opened(t *testing.T, n int) []api.Approval {
	t.Helper()
	var open []api.Approval
	require.Eventually(t, func() bool { open = s.approvals.Open(); return len(open) == n }, 30*time.Second, time.Millisecond)
	return open
}

// A question about two paths is no question about one whose name reads like them, and no answer
// to one is an answer to the other.
func TestAQuestionAboutSeveralPathsIsNotOneAboutAnother(t *testing.T) {
	s := askingShim(t)
	p := &pathAsker{s: s, held: map[pathCall]heldAnswer{}}
	type result struct {
		v   view.Verdict
		err error
	}
	ask := func(paths ...string) <-chan result {
		out := make(chan result, 1)
		go func() {
			v, err := p.Ask(t.Context(), view.Request{Agent: "alice", Op: "rename", Rule: "ask \"**\"", Write: true, Paths: paths})
			out <- result{v, err}
		}()
		return out
	}
	var all []<-chan result
	names := [][]string{{"a", "b"}, {"a\nb"}, {"a -> b"}, {`a\x00b`}, {"a b"}, {"b", "a"}}
	for i, paths := range names {
		all = append(all, ask(paths...))
		s.opened(t, i+1)
	}
	open, shown := s.approvals.Open(), map[string]bool{}
	for _, v := range open {
		shown[v.What] = true
	}
	require.Len(t, shown, len(names), "each is shown otherwise: %v", shown)
	require.Equal(t, `a\x00b`, open[0].What)
	require.Contains(t, open[0].Note, "2 paths, with a NUL between them")
	require.NotContains(t, open[1].Note, "paths")

	// Remembered, the answer is for both together and in this order.
	_, err := s.approvals.Answer(open[0].ID, api.Answer{Verdict: api.VerdictApprove, Scope: api.ScopeAgent})
	require.NoError(t, err)
	got := <-all[0]
	require.NoError(t, got.err)
	require.True(t, got.v.Allow)
	rule := api.ApprovalRule{ID: open[0].ID, Agent: "alice", Verdict: api.VerdictApprove, Kind: api.ApprovalWrite, What: "a\x00b"}
	s.remember(rule)
	got = <-ask("a", "b")
	require.True(t, got.v.Allow)
	for i, paths := range [][]string{{"a"}, {"b"}} {
		all = append(all, ask(paths...))
		s.opened(t, len(names)+i)
	}
	for _, v := range s.approvals.Open() {
		_, err := s.approvals.Answer(v.ID, api.Answer{Verdict: api.VerdictDeny, Reason: "no"})
		require.NoError(t, err)
	}
	for _, c := range all[1:] {
		got := <-c
		require.NoError(t, got.err)
		require.False(t, got.v.Allow)
		require.Equal(t, "no", got.v.Reason)
	}

	// One that is remembered alone is not part of a question about two.
	s.remember(api.ApprovalRule{ID: "x", Agent: "alice", Verdict: api.VerdictApprove, Kind: api.ApprovalWrite, What: "c"})
	two := ask("c", "d")
	require.Equal(t, "d", s.opened(t, 1)[0].What)
	_, err = s.approvals.Answer(s.approvals.Open()[0].ID, api.Answer{Verdict: api.VerdictApprove})
	require.NoError(t, err)
	require.True(t, (<-two).v.Allow)
}

// A caller that ends withdraws its question.
func TestAPathQuestionEndsWithItsCaller(t *testing.T) {
	s := askingShim(t)
	p := &pathAsker{s: s, held: map[pathCall]heldAnswer{}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan view.Verdict, 1)
	go func() {
		v, _ := p.Ask(ctx, view.Request{Write: true, Paths: []string{"a"}})
		done <- v
	}()
	s.opened(t, 1)
	cancel()
	require.False(t, (<-done).Allow)
	require.Empty(t, s.approvals.Open())
	require.Equal(t, approval.Rules{}.Remembered, s.toolRules.Load().Remembered)
}

// TestACallThatIsNotTheAgentsOpensNoQuestion, and is refused at once; an answer that is remembered holds for it as well.
func TestACallThatIsNotTheAgentsOpensNoQuestion(t *testing.T) {
	s := askingShim(t)
	p := s.pathAsker
	origin, command := leftover.Persons, 7
	p.origin = func(int) (leftover.Origin, int) { return origin, command }
	ask := func(path string) view.Verdict {
		v, err := p.Ask(t.Context(), view.Request{Agent: "alice", Op: "open", Rule: "ask \"**\"", Paths: []string{path}, Pid: 1})
		require.NoError(t, err)
		require.Empty(t, s.approvals.Open())
		return v
	}
	v := ask("a\x1b")
	require.False(t, v.Allow)
	require.True(t, v.Foreign)
	require.Contains(t, v.Reason, "a command of polisctl agents exec or shell")
	require.Equal(t, `polis: "a\x1b" needs an approval, which this command does not ask for: refused; polisctl agents why alice`, p.unaskedText(7))
	require.Empty(t, p.unaskedText(7), "the message comes once")
	ask("a")
	ask("b")
	ask("b")
	require.Equal(t, "polis: a and 2 other calls need approvals, which this command does not ask for: refused; polisctl agents why alice", p.unaskedText(7))
	for command = range 3 * maxUnasked {
		ask("a")
		require.LessOrEqual(t, len(p.unaskedOf), maxUnasked)
	}
	clear(p.unaskedOf)
	origin, command = leftover.Outside, 0
	require.Contains(t, ask("a").Reason, "a program outside of the sandbox")
	require.Empty(t, p.unaskedOf)
	s.remember(api.ApprovalRule{ID: "x", Agent: "alice", Verdict: api.VerdictApprove, Kind: api.ApprovalRead, What: "c"})
	require.True(t, ask("c").Allow)

	for _, origin = range []leftover.Origin{leftover.Agents, leftover.Unknown} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = p.Ask(ctx, view.Request{Paths: []string{"a"}, Pid: 1})
		}()
		s.opened(t, 1)
		cancel()
		<-done
	}
}

// TestARefusalThatIsNotTheAgentsCountsForNoBreaker.
func TestARefusalThatIsNotTheAgentsCountsForNoBreaker(t *testing.T) {
	s := askingShim(t)
	tripped := 0
	s.breakers.Now, s.breakers.Trip = time.Now, func(api.Trip, []uint32) { tripped++ }
	s.breakers.SetLimits(api.Breakers{Denials: 1})
	for range 3 {
		s.refusedByView(view.Denial{Op: "open", Path: "a", Foreign: true})
	}
	require.Zero(t, tripped)
	for range 3 {
		s.refusedByView(view.Denial{Op: "open", Path: "a"})
	}
	require.Equal(t, 1, tripped)
}

// thread makes a thread with a name of its own, as many runtimes do, and returns its number. It ends with the test.
func thread(t *testing.T, name string) int {
	t.Helper()
	tid, end := make(chan int), make(chan struct{})
	done := make(chan error, 1)
	var named func()
	named = func() {
		runtime.LockOSThread() // for ever: the thread ends with its name
		if unix.Gettid() == os.Getpid() {
			go named() // on another thread: this one stays here
			<-end
			return
		}
		text := append([]byte(name), 0)
		err := unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&text[0])), 0, 0, 0)
		tid <- unix.Gettid()
		<-end
		done <- err
	}
	go named()
	t.Cleanup(func() {
		close(end)
		require.NoError(t, <-done)
	})
	got := <-tid
	require.NotEqual(t, os.Getpid(), got)
	return got
}

// TestAProcessIsNamedByItsProgram, and not by the thread that makes the call, which many runtimes give a name of its own.
func TestAProcessIsNamedByItsProgram(t *testing.T) {
	own, err := os.ReadFile("/proc/self/comm")
	require.NoError(t, err)
	program := strings.TrimSuffix(string(own), "\n")
	tid := thread(t, "Bun Pool 1")
	pid, name := processOf(uint32(tid))
	require.Equal(t, os.Getpid(), pid)
	require.Equal(t, program, name)
	pid, name = processOf(0)
	require.Zero(t, pid)
	require.Empty(t, name)

	d := ofProcess(view.Denial{Path: "a", Pid: uint32(tid)})
	require.Equal(t, view.Denial{Path: "a", Pid: uint32(os.Getpid()), Program: program}, d)
	for _, as := range []view.Denial{{Path: "a"}, {Path: "a", Pid: 1 << 30}, {Path: "a", Pid: uint32(tid), Program: "curl"}} {
		require.Equal(t, as, ofProcess(as), "what is known stays")
	}
}
