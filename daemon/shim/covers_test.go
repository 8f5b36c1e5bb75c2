package shim

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/rules/approval"
	"polis/daemon/shim/leftover"
	"polis/fusefs/view"
)

// callingShim is an askingShim whose agent runs a command. The processes of a ten are one tree, of which the full ten asks.
func callingShim(t require.TestingT, ctx context.Context) *Shim {
	s := newAskingShim(t, ctx)
	s.omitting.Store(true) // nothing is started that reports how many events were left out
	s.covers.begin()
	s.pathAsker.origin = nil
	s.pathAsker.lineOf = func(pid int) (leftover.Line, bool) {
		return leftover.Line{Procs: []leftover.At{{PID: pid}}}, pid%10 == 0
	}
	s.pathAsker.under = func(pid int, l leftover.Line, _ uint64) (leftover.Line, bool) { return l, pid/10 == l.Procs[0].PID/10 }
	return s
}

// called is a call of a tool that a person answers; none if the tool needs no question.
func (s *Shim) called(t require.TestingT, pid int, tool string, input map[string]any, verdict api.Verdict) api.Approval {
	q, err := s.toolNames.Question(tool, input, []string{"/repo"})
	require.NoError(t, err)
	q.PID = pid
	c := s.coverOf(q)
	caller, err := s.approvals.Ask(q, time.Now().Add(time.Hour))
	require.NoError(t, err)
	if id := caller.ID(); id != "" {
		_, err = s.approvals.Answer(id, api.Answer{Verdict: verdict, By: "user:7", Name: "ann"})
		require.NoError(t, err)
	}
	a, ok := caller.Leave()
	require.True(t, ok)
	s.approvedCall(c, caller.ID(), a)
	if caller.ID() == "" {
		return api.Approval{}
	}
	v, err := s.approvals.Get(caller.ID())
	require.NoError(t, err)
	return v
}

func fileInput(path string) map[string]any { return map[string]any{"file_path": path} }

// covers reports whether the use of a path opens no question.
func (s *Shim) coversUse(write bool, pid int, paths ...string) bool {
	kind := api.ApprovalRead
	if write {
		kind = api.ApprovalWrite
	}
	return len(paths) == 1 && s.pathAsker.covered(kind, paths[0], pid)
}

// TestWhatTheAnswerToACallCovers: by kind of the tool, by what it names, and by the process and the answer.
func TestWhatTheAnswerToACallCovers(t *testing.T) {
	patch := func(paths ...string) map[string]any {
		text := "*** Begin Patch\n"
		for _, p := range paths {
			text += "*** Update File: " + p + "\n@@\n-a\n+b\n"
		}
		return map[string]any{"input": text + "*** End Patch"}
	}
	var many, longer []string
	for i := range maxCoverPaths + 1 {
		many, longer = append(many, fmt.Sprint("f", i)), append(longer, strings.Repeat("x", approval.MaxShown/8)+fmt.Sprint(i))
	}
	for _, c := range []struct {
		name, tool  string
		input       map[string]any
		path        string
		read, write bool
	}{
		{"an edit", "Edit", fileInput("/repo/a"), "a", true, true},
		{"a whole file", "Write", fileInput("a"), "a", true, true},
		{"what reads", "Read", fileInput("a"), "a", true, false},
		{"a patch", "apply_patch", patch("b", "a"), "a", true, true},
		{"a path with ..", "Edit", fileInput("/repo/b/../a"), "a", true, true},
		{"another path", "Edit", fileInput("b"), "a", false, false},
		{"a name that is not UTF-8", "Edit", fileInput("a\ufffd"), "a\xff", false, false},
		{"a second path, which is not shown", "Edit", map[string]any{"file_path": "b", "path": "a"}, "a", false, false},
		{"a directory", "Edit", fileInput("d"), "d/a", false, false},
		{"the repository", "Grep", map[string]any{"pattern": "x"}, ".", false, false},
		{"outside", "Edit", fileInput("/etc/passwd"), "/etc/passwd", false, false},
		{"outside, from within", "Edit", fileInput("../a"), "../a", false, false},
		{"as many files as a call can have", "apply_patch", patch(many[1:]...), "f1", true, true},
		{"one more", "apply_patch", patch(many...), "f1", false, false},
		{"more than a person sees", "apply_patch", patch(longer[:9]...), longer[0], false, false},
		{"a shell's command", "Bash", map[string]any{"command": "cat a", "file_path": "a"}, "a", false, false},
		{"another tool", "mcp__files", fileInput("a"), "a", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := callingShim(t, t.Context())
			require.Equal(t, api.VerdictApprove, s.called(t, 10, c.tool, c.input, api.VerdictApprove).Answer.Verdict)
			require.Equal(t, c.read, s.coversUse(false, 10, c.path))
			require.Equal(t, c.write, s.coversUse(true, 11, c.path))
			require.False(t, s.coversUse(false, 20, c.path), "another process")
		})
	}

	s := callingShim(t, t.Context())
	s.called(t, 11, "Edit", fileInput("a"), api.VerdictApprove)
	require.False(t, s.coversUse(true, 11, "a"), "what asked is not of the agent's command")
	s.toolRules.Store(&approval.Rules{Remembered: []api.ApprovalRule{{ID: "x", Agent: "alice", Verdict: api.VerdictApprove, Kind: api.ApprovalTool, Tool: "Edit", What: "a"}}})
	s.called(t, 10, "Edit", fileInput("a"), "")
	require.False(t, s.coversUse(true, 10, "a"), "a rule has answered")
}

// TestTheAnswerToACallEnds: with the call, with the next one, by its time, and with the command.
func TestTheAnswerToACallEnds(t *testing.T) {
	for name, end := range map[string]func(s *Shim){
		"the call has ended": func(s *Shim) {
			w := httptest.NewRecorder()
			body := `{"tool":"Edit","input":{"file_path":"a"},"requestId":"1"}`
			require.NoError(t, s.insideToolDone(w, httptest.NewRequest(http.MethodPost, "/v1/tool_done", strings.NewReader(body))))
			require.JSONEq(t, `{"type":"tool_done","requestId":"1"}`, w.Body.String())
		},
		"the next call is denied":   func(s *Shim) { s.called(t, 10, "Edit", fileInput("a"), api.VerdictDeny) },
		"a call of another process": func(s *Shim) { s.called(t, 20, "Read", fileInput("a"), api.VerdictApprove) },
		"its time is over":          func(s *Shim) { s.covers.all[0].until = time.Now().Add(-time.Nanosecond) },
		"the command has ended":     func(s *Shim) { s.covers.end() },
		"another task has begun":    func(s *Shim) { s.covers.begin() },
		"a rule denies the call now": func(s *Shim) {
			set, err := s.toolNames.Compile(api.ToolRules{AutoDeny: []string{"edit(a)"}})
			require.NoError(t, err)
			s.toolRules.Store(&approval.Rules{Tools: set})
		},
		"the path is denied for the agent": func(s *Shim) {
			s.remember(api.ApprovalRule{ID: "x", Agent: "alice", Verdict: api.VerdictDeny, Kind: api.ApprovalWrite, What: "a"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := callingShim(t, t.Context())
			s.called(t, 10, "Edit", fileInput("b"), api.VerdictApprove)
			s.called(t, 10, "Edit", fileInput("a"), api.VerdictApprove)
			s.covers.all[0], s.covers.all[1] = s.covers.all[1], s.covers.all[0]
			require.True(t, s.coversUse(true, 10, "a"))
			end(s)
			require.False(t, s.coversUse(true, 10, "a"))
		})
	}

	// An answer that comes after the command has ended is for nothing, and the calls that hold are bounded.
	s := callingShim(t, t.Context())
	command := s.covers.command()
	s.covers.begin()
	s.covers.add(&cover{asked: approval.Question{Class: api.ToolEdit, Paths: []string{"a"}}, until: time.Now().Add(time.Hour)}, command)
	require.Empty(t, s.covers.all)
	for i := range maxCovers + 1 {
		s.called(t, 10, "Edit", fileInput(fmt.Sprint("f", i)), api.VerdictApprove)
	}
	require.Len(t, s.covers.all, maxCovers)
	require.False(t, s.coversUse(true, 10, "f0"))
}

// TestACoveredUseIsRecordedOnce: with the question, and a write as an approved one.
func TestACoveredUseIsRecordedOnce(t *testing.T) {
	s := callingShim(t, t.Context())
	v := s.called(t, 10, "Edit", fileInput("a b"), api.VerdictApprove)
	for range 3 {
		require.True(t, s.coversUse(false, 10, "a b"))
		require.True(t, s.coversUse(true, 12, "a b"))
	}
	var told []string
	var writes []wire.Answered
	for _, e := range s.events.Since(0) {
		switch e.Type {
		case api.EventApprovalCovered:
			require.Equal(t, v.ID, e.Data["id"])
			require.Equal(t, "user:7", e.Data["by"])
			told = append(told, e.Message)
		case wire.EventAnswered:
			var w wire.Answered
			b, err := json.Marshal(e.Data["answered"])
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(b, &w))
			writes = append(writes, w)
		}
	}
	require.Equal(t, []string{"agent alice: read a b: by the answer of ann to question " + v.ID, "agent alice: write a b: by the answer of ann to question " + v.ID}, told)
	require.Len(t, writes, 1)
	require.Equal(t, api.ApprovalWrite, writes[0].Approval.Kind)
	require.Equal(t, "a b", writes[0].Approval.What)
	require.Nil(t, writes[0].Rule)
}

// TestOnlyTheContentOfOneFileIsCovered: every other operation opens its question, and a denial of it ends the cover.
func TestOnlyTheContentOfOneFileIsCovered(t *testing.T) {
	s := callingShim(t, t.Context())
	use := func(content bool, paths ...string) <-chan view.Verdict {
		out := make(chan view.Verdict, 1)
		go func() {
			v, err := s.pathAsker.Ask(t.Context(), view.Request{Agent: "alice", Op: "x", Rule: "ask \"**\"", Write: true, Paths: paths, Content: content})
			if err == nil {
				out <- v
			}
		}()
		return out
	}
	s.pathAsker.under = func(_ int, l leftover.Line, _ uint64) (leftover.Line, bool) { return l, true }
	s.called(t, 10, "apply_patch", map[string]any{"input": "*** Begin Patch\n*** Update File: a\n*** Update File: b\n"}, api.VerdictApprove)
	require.True(t, (<-use(true, "a")).Allow)
	require.True(t, (<-use(true, "b")).Allow)
	waits := use(false, "a")
	two := use(true, "b", "a")
	for _, q := range s.opened(t, 2) {
		_, err := s.approvals.Answer(q.ID, api.Answer{Verdict: api.VerdictDeny, Reason: "no"})
		require.NoError(t, err)
	}
	require.False(t, (<-waits).Allow)
	require.False(t, (<-two).Allow)
	waits = use(true, "a")
	_, err := s.approvals.Answer(s.opened(t, 1)[0].ID, api.Answer{Verdict: api.VerdictApprove})
	require.NoError(t, err)
	require.True(t, (<-waits).Allow)
}

// TestPropertyNoUseIsCoveredThatNobodyApproved: whatever calls, answers and ends come in which order, a use is covered only by
// an approval of its path, for its kind, by its processes, since the last question about one of the call's files.
func TestPropertyNoUseIsCoveredThatNobodyApproved(t *testing.T) {
	type approved struct {
		tree  int
		write bool
		paths []string
	}
	rapid.Check(t, func(r *rapid.T) {
		s := callingShim(r, t.Context())
		var model []approved
		over := func(paths []string) {
			model = slices.DeleteFunc(model, func(a approved) bool {
				return slices.ContainsFunc(a.paths, func(p string) bool { return slices.Contains(paths, p) })
			})
		}
		tree := rapid.IntRange(1, 3)
		paths := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d/a"}), 1, 3, rapid.ID[string])
		call := func(verdict api.Verdict) func(*rapid.T) {
			return func(r *rapid.T) {
				of, names, write := tree.Draw(r, "tree"), paths.Draw(r, "paths"), rapid.Bool().Draw(r, "write")
				tool, input := "apply_patch", map[string]any{"input": "*** Begin Patch\n*** Update File: " + strings.Join(names, "\n*** Update File: ")}
				if !write {
					names = names[:1]
					tool, input = "Read", fileInput(names[0])
				}
				s.called(r, of*10, tool, input, verdict)
				if over(names); verdict == api.VerdictApprove {
					model = append(model, approved{of, write, names})
				}
			}
		}
		r.Repeat(map[string]func(*rapid.T){
			"approved": call(api.VerdictApprove),
			"denied":   call(api.VerdictDeny),
			"ended":    func(r *rapid.T) { names := paths.Draw(r, "paths"); s.covers.over(names); over(names) },
			"task":     func(*rapid.T) { s.covers.end(); s.covers.begin(); model = nil },
			"": func(r *rapid.T) {
				for of := 1; of <= 3; of++ {
					for _, p := range []string{"a", "b", "c", "d/a", "d", "a/.."} {
						for _, write := range []bool{false, true} {
							want := slices.ContainsFunc(model, func(a approved) bool { return a.tree == of && (a.write || !write) && slices.Contains(a.paths, p) })
							require.Equal(r, want, s.coversUse(write, of*10+rapid.IntRange(0, 9).Draw(r, "process"), p), "%d %s %v", of, p, write)
						}
					}
				}
			},
		})
	})
}

// TestWhatEndsACoverCountsBeforeItsAnswer: between the answer and its effect a checkpoint is made, which takes time.
func TestWhatEndsACoverCountsBeforeItsAnswer(t *testing.T) {
	for name, end := range map[string]func(s *Shim){
		"another question of its file": func(s *Shim) { s.called(t, 10, "Edit", fileInput("a"), api.VerdictDeny) },
		"a denial at the system call":  func(s *Shim) { s.covers.over([]string{"a"}) },
		"the end of the command":       func(s *Shim) { s.covers.end() },
	} {
		t.Run(name, func(t *testing.T) {
			s := callingShim(t, t.Context())
			q, err := s.toolNames.Question("Edit", fileInput("a"), nil)
			require.NoError(t, err)
			q.PID = 10
			c := s.coverOf(q)
			require.False(t, s.coversUse(true, 10, "a"), "there is no answer yet")
			caller, err := s.approvals.Ask(q, time.Now().Add(time.Hour))
			require.NoError(t, err)
			_, err = s.approvals.Answer(caller.ID(), api.Answer{Verdict: api.VerdictApprove, By: "user:7"})
			require.NoError(t, err)
			a, ok := caller.Leave()
			require.True(t, ok)
			end(s)
			s.approvedCall(c, caller.ID(), a)
			require.False(t, s.coversUse(true, 10, "a"))
		})
	}
}

// TestAnEqualQuestionOfAnotherProcessIsNotCovered: the person saw the process that asked first.
func TestAnEqualQuestionOfAnotherProcessIsNotCovered(t *testing.T) {
	s := callingShim(t, t.Context())
	q, err := s.toolNames.Question("Edit", fileInput("a"), nil)
	require.NoError(t, err)
	var covers []*cover
	var callers []*approval.Caller
	for _, pid := range []int{10, 20} {
		q.PID = pid
		covers = append(covers, s.coverOf(q))
		caller, err := s.approvals.Ask(q, time.Now().Add(time.Hour))
		require.NoError(t, err)
		callers = append(callers, caller)
	}
	require.Equal(t, callers[0].ID(), callers[1].ID(), "one question")
	_, err = s.approvals.Answer(callers[0].ID(), api.Answer{Verdict: api.VerdictApprove, By: "user:7"})
	require.NoError(t, err)
	for i, caller := range callers {
		a, ok := caller.Leave()
		require.True(t, ok)
		s.approvedCall(covers[i], caller.ID(), a)
	}
	require.False(t, s.coversUse(true, 20, "a"))
	require.Empty(t, s.covers.all)
}
