package tui

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

// fakeDaemon answers from memory and writes down what was asked of it. The
// real one is met in package e2e.
type fakeDaemon struct {
	tasks  []api.Task
	steps  []api.Step // of each of them
	mu     sync.Mutex
	calls  []string
	limits []time.Duration // of all calls

	agents  []api.Agent
	locks   []api.Lock
	queues  []api.Queue
	asked   []api.Approval
	cases   []api.Case
	logs    map[string]string
	diff    string
	warning string
	err     error
	events  func(ctx context.Context, since uint64, fn func(api.Event) error) error
}

func (f *fakeDaemon) did(ctx context.Context, call string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	limit := time.Duration(-1)
	if end, ok := ctx.Deadline(); ok {
		limit = time.Until(end)
	}
	f.calls, f.limits = append(f.calls, call), append(f.limits, limit)
	return f.err
}

// changes are the calls that change something, since the last time.
func (f *fakeDaemon) changes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, c := range f.calls {
		if !strings.HasPrefix(c, "get ") {
			out = append(out, c)
		}
	}
	f.calls = nil
	return out
}

func (f *fakeDaemon) Health(ctx context.Context) error { return f.did(ctx, "get health") }

func (f *fakeDaemon) Agents(ctx context.Context, _ string) ([]api.Agent, error) {
	return append([]api.Agent(nil), f.agents...), f.did(ctx, "get agents")
}

func (f *fakeDaemon) Locks(ctx context.Context) ([]api.Lock, error) {
	return f.locks, f.did(ctx, "get locks")
}

func (f *fakeDaemon) Queues(ctx context.Context, _ string) ([]api.Queue, error) {
	return f.queues, f.did(ctx, "get queues")
}

func (f *fakeDaemon) Events(ctx context.Context, q client.EventQuery, fn func(api.Event) error) error {
	if err := f.did(ctx, "get events"); err != nil {
		return err
	}
	return f.events(ctx, q.Since, fn)
}

func (f *fakeDaemon) Logs(ctx context.Context, name string, _ int, _ bool) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(f.logs[name])), f.did(ctx, "get logs "+name)
}

func (f *fakeDaemon) Tasks(ctx context.Context, name string) ([]api.Task, error) {
	return slices.Clone(f.tasks), f.did(ctx, "get tasks "+name)
}

func (f *fakeDaemon) Task(ctx context.Context, id string, _ time.Duration) (api.Task, error) {
	for _, t := range f.tasks {
		if t.ID == id {
			t.Steps, t.StepCount = f.steps, len(f.steps)+2
			return t, f.did(ctx, "get task "+id)
		}
	}
	return api.Task{}, f.did(ctx, "get task "+id)
}

func (f *fakeDaemon) Diff(ctx context.Context, name string, _ api.DiffRequest) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(f.diff)), f.did(ctx, "get diff "+name)
}

func (f *fakeDaemon) TaskDiff(ctx context.Context, id string, _ bool) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("diff --git a/" + id + " b/" + id + "\n-gone\n+by-" + id + "\n")), f.did(ctx, "get task diff "+id)
}

func (f *fakeDaemon) TaskOutput(ctx context.Context, id string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("printed-by-" + id + "\x1b[2J\n")), f.did(ctx, "get task output "+id)
}

func (f *fakeDaemon) Approvals(ctx context.Context, _ string) ([]api.Approval, error) {
	return append([]api.Approval(nil), f.asked...), f.did(ctx, "get approvals")
}

func (f *fakeDaemon) Approval(ctx context.Context, id string) (api.Approval, error) {
	for _, v := range f.asked {
		if v.ID == id {
			v.Diff = []string{"--- a/x", "+++ b/x", "@@ -1 +1 @@", `-old\x1b[2J`, "+new"}
			return v, f.did(ctx, "get approval "+id)
		}
	}
	return api.Approval{}, api.Errorf(api.CodeNotFound, "there is no question %s", id)
}

func (f *fakeDaemon) Answer(ctx context.Context, id string, req api.AnswerRequest) (api.Approval, error) {
	f.asked = slices.DeleteFunc(f.asked, func(v api.Approval) bool { return v.ID == id })
	return api.Approval{ID: id}, f.did(ctx, fmt.Sprintf("answer %s: %s %s %s", id, req.Verdict, req.Scope, req.Reason))
}

func (f *fakeDaemon) Cases(ctx context.Context, _ string, _ bool) ([]api.Case, error) {
	return slices.Clone(f.cases), f.did(ctx, "get cases")
}

func (f *fakeDaemon) ResolveCase(ctx context.Context, id string, req api.ResolveRequest) (api.Case, error) {
	f.cases = slices.DeleteFunc(f.cases, func(c api.Case) bool { return c.ID == id })
	return api.Case{ID: id}, f.did(ctx, "resolve "+id+": "+req.Note)
}

func (f *fakeDaemon) Thaw(ctx context.Context, name string) (api.Agent, error) {
	for i := range f.agents {
		if f.agents[i].Name == name {
			f.agents[i].Waiting = nil
		}
	}
	f.cases = slices.DeleteFunc(f.cases, func(c api.Case) bool { return c.Agent == name && c.Kind == "breaker" })
	return api.Agent{Name: name}, f.did(ctx, "thaw "+name)
}

func (f *fakeDaemon) Rewind(ctx context.Context, name string, req api.RewindRequest) (api.SnapshotRestored, error) {
	switch {
	case req.DryRun && req.To == "same":
		return api.SnapshotRestored{ID: "s7"}, f.did(ctx, "get rewind "+name)
	case req.DryRun:
		return api.SnapshotRestored{ID: "s7", Changed: 2}, f.did(ctx, "get rewind "+name)
	}
	return api.SnapshotRestored{Changed: 2, Before: "s2"}, f.did(ctx, "rewind "+name+" to "+req.To)
}

func (f *fakeDaemon) CheckLog(ctx context.Context, req api.CheckLogRequest) (api.CheckLog, error) {
	_ = f.did(ctx, "get check log "+req.Agent) // f.err is that of the merge
	return api.CheckLog{Agent: req.Agent, Check: 1, Checks: 1, ID: req.Agent + ".1", Code: api.CodeCheckFailed, Message: "the check ended with exit code 1", Command: "make test",
		Text: "ok first\n\x1b]0;unterminated\nFAIL TestSecond\n"}, nil
}

func (f *fakeDaemon) Leftovers(ctx context.Context, name string) (api.Leftovers, error) {
	return api.Leftovers{Leftovers: []api.Leftover{{PID: 77, Program: "node", Command: "node\x1b[2J hub.js", MemoryBytes: 350 << 20, Ports: []api.LeftoverPort{{Port: 25463, Protocol: "tcp"}}}}}, f.did(ctx, "get leftovers "+name)
}

func (f *fakeDaemon) EndLeftovers(ctx context.Context, name string) (api.Leftovers, error) {
	return api.Leftovers{Ended: 1}, f.did(ctx, "end leftovers "+name)
}

func (f *fakeDaemon) BringUp(ctx context.Context, name string) (api.Agent, error) {
	return api.Agent{Name: name, Status: api.StatusIdle}, f.did(ctx, "ready "+name)
}

func (f *fakeDaemon) Stop(ctx context.Context, name string) (api.Agent, error) {
	return api.Agent{Name: name, Status: api.StatusStopped}, f.did(ctx, "stop "+name)
}

func (f *fakeDaemon) Run(ctx context.Context, name string, req api.RunRequest) (api.Task, error) {
	return api.Task{Agent: name}, f.did(ctx, "run "+name+": "+req.Prompt)
}

func (f *fakeDaemon) Say(ctx context.Context, name string, req api.SayRequest) (api.SayResponse, error) {
	return api.SayResponse{Task: api.Task{Agent: name}, Message: "queued as " + name + ".4, after " + name + ".3 ends"}, f.did(ctx, "say "+name+": "+req.Text)
}

func (f *fakeDaemon) Broadcast(ctx context.Context, req api.BroadcastRequest) (api.BroadcastResponse, error) {
	return api.BroadcastResponse{Results: []api.BroadcastResult{{Agent: "one"}, {Agent: "two", Error: api.Errorf(api.CodeInternal, "no ears")}}},
		f.did(ctx, "broadcast: "+req.Text)
}

func (f *fakeDaemon) Commit(ctx context.Context, name string, _ api.CommitRequest) (api.CommitResponse, error) {
	return api.CommitResponse{Agent: name, Branch: "agent/" + name, Commit: "0123456789abcdef", Files: 2}, f.did(ctx, "commit "+name)
}

func (f *fakeDaemon) Merge(ctx context.Context, name string, _ api.MergeRequest) (api.MergeResponse, error) {
	return api.MergeResponse{Branch: "agent/" + name, Target: "main", MergeCommitSHA: "0123456789abcdef", Paths: []string{"a"}}, f.did(ctx, "merge "+name)
}

func (f *fakeDaemon) Revert(ctx context.Context, name string, req api.RevertRequest) (api.RevertResponse, error) {
	call := "revert " + name
	if req.DryRun {
		call = "get revert " + name
	}
	return api.RevertResponse{Agent: name, Target: "main", MergeCommitSHA: "0123456789abcdef", RevertCommitSHA: "fedcba9876543210", Warning: f.warning}, f.did(ctx, call)
}

func (f *fakeDaemon) Discard(ctx context.Context, name string, _ bool) (api.RemoveResponse, error) {
	return api.RemoveResponse{Name: name}, f.did(ctx, "discard "+name)
}

// screen is a model whose commands are run at once, in the test's goroutine.
// Tests with one are in a synctest bubble: its clock does not wait.
type screen struct {
	t *testing.T
	m *Model
	f *fakeDaemon

	left bool // the program was left
	held []tea.Cmd
	hold bool // commands wait in held
}

func newScreen(t *testing.T, f *fakeDaemon) *screen {
	s := &screen{t: t, f: f, m: newModel(Options{Daemon: f, Getenv: utf8Locale}, &tasks{ctx: t.Context()})}
	s.run(s.m.look())
	return s
}

func (s *screen) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	if s.hold {
		s.held = append(s.held, cmd)
		return
	}
	switch msg := cmd().(type) {
	case nil, tickMsg:
	case tea.QuitMsg:
		s.left = true
	case tea.BatchMsg:
		for _, c := range msg {
			s.run(c)
		}
	default:
		s.send(msg)
	}
}

// release runs the commands that were held.
func (s *screen) release() {
	s.hold = false
	for held := s.held; len(held) > 0; held = held[1:] {
		s.run(held[0])
	}
	s.held = nil
}

func (s *screen) send(msg tea.Msg) {
	_, cmd := s.m.Update(msg)
	s.run(cmd)
}

// keys presses keys: names in <>, else characters.
func (s *screen) keys(text string) {
	named := map[string]tea.Key{"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "down": {Code: tea.KeyDown}, "backspace": {Code: tea.KeyBackspace},
		"ctrl+c": {Code: 'c', Mod: tea.ModCtrl}, "ctrl+u": {Code: 'u', Mod: tea.ModCtrl}, "ctrl+w": {Code: 'w', Mod: tea.ModCtrl}, "ctrl+p": {Code: 'p', Mod: tea.ModCtrl}, "tab": {Code: tea.KeyTab}, "up": {Code: tea.KeyUp}, "pgdown": {Code: tea.KeyPgDown}, "right": {Code: tea.KeyRight}}
	for len(text) > 0 {
		if text[0] == '<' {
			name, rest, _ := strings.Cut(text[1:], ">")
			k, ok := named[name]
			require.True(s.t, ok, name)
			s.send(tea.KeyPressMsg(k))
			text = rest
			continue
		}
		s.send(tea.KeyPressMsg(tea.Key{Code: rune(text[0]), Text: text[:1]}))
		text = text[1:]
	}
}

func (s *screen) text() string { return ansi.Strip(strings.Join(s.m.lines(), "\n")) }

func twoAgents() *fakeDaemon {
	return &fakeDaemon{
		agents: []api.Agent{
			{Name: "two", BaseType: "custom", Workspace: "demo", Status: api.StatusStopped, Branch: "agent/two", MergeStatus: api.MergeMerged, MergeCommitSHA: "0123456789abcdef"},
			{Name: "one", BaseType: "claude", Workspace: "demo", Status: api.StatusRunning, Branch: "agent/one", MemoryBytes: 12 << 20, MemoryLimitMB: 512, CPUMicros: 1,
				PortMappings: []api.PortMapping{{Agent: "one", Internal: 3000, External: 13000, Bind: "127.0.0.1"}}},
		},
		locks:  []api.Lock{{Path: "main.txt", Holder: "one"}, {Path: "src/a.txt", Holder: "one"}},
		queues: []api.Queue{{Workspace: "demo", Entries: []api.QueueEntry{{Agent: "one", State: api.QueueChecking}}}},
		logs:   map[string]string{"one": "first\nsecond\nthird\nfourth\n", "two": ""},
		diff:   "diff --git a/f b/f\n@@ -1 +1 @@\n-old\n+new\n",
	}
}
