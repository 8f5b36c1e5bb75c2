package shim

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/fusefs/view"
)

// stepping is a shim with a session that works on a task whose program prints codex' stream.
func stepping(t *testing.T, stream string) (*Shim, *session, *bytes.Buffer) {
	t.Helper()
	s := &Shim{ctx: t.Context(), Log: slog.New(slog.DiscardHandler)}
	s.Spec.LogDir, s.Spec.LogBytes, s.Spec.Agent, s.Spec.ProjectPath = t.TempDir(), 1<<20, "alice", "/project"
	st, err := s.newStepper(wire.StartRequest{Task: "alice.1", Stream: stream})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.closeRaw()) })
	m := &session{done: make(chan struct{}), subs: map[*subscriber]struct{}{}, steps: st}
	out, err := openLog(filepath.Join(s.Spec.LogDir, "out"), "output.log", 1<<20)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, out.Close()) })
	s.out = out
	s.stepping.Store(m)
	return s, m, &bytes.Buffer{}
}

const codexLine = `{"type":"item.started","item":{"id":"i1","type":"command_execution","command":"make test","status":"in_progress"}}` + "\n"

// The log and those who watch get the steps, the raw log the lines.
func TestAStreamIsKeptAndItsStepsAreShown(t *testing.T) {
	_, m, log := stepping(t, "codex")
	sub, ok := m.subscribe(0, 0)
	require.True(t, ok)
	for i := range len(codexLine) { // wherever the reads cut it
		require.NoError(t, m.output([]byte(codexLine[i:i+1]), log))
	}
	require.NoError(t, m.errorOutput([]byte("a warning\n"), log))
	require.Equal(t, "* command  make test\na warning\n", log.String())
	require.Equal(t, "* command  make test\n", string(<-sub.ch))
	require.Equal(t, int64(len(codexLine)+len("a warning\n")), m.steps.raw.position()-m.steps.begin)
	require.NoError(t, m.output([]byte("no end of line"), log))
	m.endSteps(log, slog.New(slog.DiscardHandler))
	require.True(t, strings.HasSuffix(log.String(), "no end of line\n"), log.String())
	require.Equal(t, m.steps.raw.position(), m.steps.end)
}

// What is no task has no steps, and a format that does not exist, or one on a terminal, is refused.
func TestStepsAreOfTasks(t *testing.T) {
	s := &Shim{}
	s.Spec.LogDir, s.Spec.LogBytes = t.TempDir(), 1<<20
	st, err := s.newStepper(wire.StartRequest{Stream: "codex"})
	require.NoError(t, err)
	require.Nil(t, st)
	require.False(t, st.reads())
	for _, req := range []wire.StartRequest{{Task: "a.1", Stream: "nothing"}, {Task: "a.1", Stream: "codex", TTY: true}} {
		_, err := s.newStepper(req)
		require.Equal(t, api.CodeBadRequest, api.CodeOf(err))
	}
	st, err = s.newStepper(wire.StartRequest{Task: "a.1"})
	require.NoError(t, err)
	require.False(t, st.reads(), "it prints text")
	require.NoError(t, s.closeRaw(), "it was never opened")
}

// Refusals are steps, as many as there is room for; none comes after the end.
func TestRefusalsAreStepsAndBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, m, _ := stepping(t, "codex")
		read := func() string {
			m.mu.Lock()
			defer m.mu.Unlock()
			kept, _ := m.steps.stream.Kept()
			var b strings.Builder
			for _, k := range kept {
				fmt.Fprintf(&b, "%s %s\n", k.Kind, k.Text)
			}
			return b.String()
		}
		s.noteDenied(view.Denial{Op: "write", Path: "a.txt", Code: "FILE_LOCKED", Holder: "bob"})
		s.noteDenied(view.Denial{Op: "read", Path: "b\n.txt", Code: "HIDDEN"})
		require.Equal(t, "refused write of a.txt (FILE_LOCKED, held by bob)\nrefused read of b .txt (HIDDEN)\n", read())
		for range 100 {
			s.noteDenied(view.Denial{Op: "write", Path: "a.txt", Code: "HIDDEN"})
		}
		require.Equal(t, noteBurst, strings.Count(read(), "\n"))
		time.Sleep(noteEvery)
		s.noteDenied(view.Denial{Op: "write", Path: "later", Code: "HIDDEN"})
		require.Contains(t, read(), "later")
		time.Sleep(noteEvery)
		m.endSteps(s.out, s.Log)
		s.noteDenied(view.Denial{Op: "write", Path: "too late", Code: "HIDDEN"})
		require.NotContains(t, read(), "too late")
		close(m.done)
		s.noteDenied(view.Denial{Op: "write", Path: "too late", Code: "HIDDEN"})
		s.stepping.Store(nil)
		s.noteStep(api.StepWaiting, func() string { t.Error("there is no task"); return "" })
	})
}

// Programs retry a name that does not resolve: each refused destination is one step of a task.
func TestARefusedDestinationIsOneStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, m, _ := stepping(t, "codex")
		for i := range 3 * maxNames {
			for range 2 {
				s.noteDenied(view.Denial{Op: "name lookup", Path: fmt.Sprintf("n%d.test", i%(2*maxNames)), Code: "EGRESS_DENIED"})
			}
			time.Sleep(noteEvery)
		}
		s.noteDenied(view.Denial{Op: "write", Path: "n1.test", Code: "HIDDEN"})
		m.mu.Lock()
		defer m.mu.Unlock()
		kept, all := m.steps.stream.Kept()
		require.Equal(t, maxNames+1, all, "%v", kept)
		require.Contains(t, kept[len(kept)-1].Text, "HIDDEN")
	})
}

// A wait that is over soon is no step, and what asks for no path is none.
func TestShortWaitsAreNoSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, m, _ := stepping(t, "")
		s.ctx = context.Background()
		require.True(t, s.noteWaiting(view.LockRequest{})())
		stop := s.noteWaiting(view.LockRequest{Paths: []string{"a.txt"}})
		time.Sleep(waitNote / 2)
		require.True(t, stop(), "it had not fired")
		time.Sleep(2 * waitNote)
		synctest.Wait()
		m.mu.Lock()
		defer m.mu.Unlock()
		_, n := m.steps.stream.Kept()
		require.Zero(t, n)
	})
}

// However the output is cut, the raw log has it whole and the log has the same text.
func TestHowOutputIsCutChangesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{codexLine, "text\n", "\n", "{\"type\":\"x\"}\n", "half", "\x1b[2J\n"}), 0, 12).Draw(rt, "text"), "")
		n := rapid.IntRange(1, 40).Draw(rt, "piece")
		_, whole, all := stepping(t, "codex")
		require.NoError(rt, whole.output([]byte(text), all))
		whole.endSteps(all, slog.New(slog.DiscardHandler))
		_, cut, log := stepping(t, "codex")
		for left := text; left != ""; left = left[min(n, len(left)):] {
			require.NoError(rt, cut.output([]byte(left[:min(n, len(left))]), log))
		}
		cut.endSteps(log, slog.New(slog.DiscardHandler))
		require.Equal(rt, all.String(), log.String())
		require.Equal(rt, int64(len(text)), cut.steps.raw.position()-cut.steps.begin)
	})
}
