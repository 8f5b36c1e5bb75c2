package shim

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/cgroup/sandbox"
	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/history/task"
	"polis/daemon/rules/approval"
	"polis/fusefs/view"
)

// TestWhichExitsAreSaved: that of a task's program which ended by itself.
func TestWhichExitsAreSaved(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		id       string
		code     int
		stopping bool
		saved    bool
	}{
		"a task":                       {id: "a.1", code: 3, saved: true},
		"no task":                      {code: 3},
		"the shim stops":               {id: "a.1", stopping: true},
		"how it exited is not known":   {id: "a.1", code: -1},
		"it was killed by a signal":    {id: "a.1", code: 137, saved: true},
		"it ended well, as its record": {id: "a.1", saved: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Shim{Spec: wire.Spec{Agent: "a", LogDir: t.TempDir()}, Log: slog.New(slog.DiscardHandler), stopping: make(chan struct{}), views: &views{whys: view.NewWhy(), probes: view.NewWhy()},
				task: mainTask{id: c.id, output: api.OutputRange{From: 1, To: 9}, used: &api.TaskUse{WritesDenied: 2}}, oom: oomState{judged: true}}
			if c.stopping {
				close(s.stopping)
			}
			s.keepExit(&session{code: c.code, ended: at})
			got, ok, err := (&task.Store{Dir: s.Spec.LogDir, Agent: "a"}).Exit("a.1")
			require.NoError(t, err)
			require.Equal(t, c.saved, ok)
			if ok {
				require.Equal(t, wire.TaskExit{At: at, Code: c.code, Output: api.OutputRange{From: 1, To: 9}, Use: &api.TaskUse{WritesDenied: 2}}, got)
			}
		})
	}
}

// TestATaskBeginsBeforeItsProgram: what the first instruction of a program meets is compared with what was
// before it, and is the task's. A program that cannot be started leaves the task before as it was.
func TestATaskBeginsBeforeItsProgram(t *testing.T) {
	was := mainTask{id: "a.1", output: api.OutputRange{From: 1, To: 9}, used: &api.TaskUse{WritesDenied: 2}}
	then := time.Now().Add(-time.Hour)
	s := &Shim{ctx: t.Context(), Spec: wire.Spec{Agent: "a"}, Log: slog.New(slog.DiscardHandler), approvals: &approval.Queue{}, task: was, mainStart: then}
	st, err := s.newStepper(wire.StartRequest{Task: "a.2"})
	require.NoError(t, err)
	denied := int64(2)
	started := time.Time{}
	_, err = s.startTask(sandbox.Process{}, wire.StartRequest{Task: "a.2"}, taskStart{steps: st, from: 9,
		use: func() api.TaskUse { return api.TaskUse{WritesDenied: denied} },
		start: func(sandbox.Process) (*sandbox.Proc, error) {
			denied++ // its first instruction is refused something
			started = time.Now()
			require.Equal(t, mainTask{id: "a.2", output: api.OutputRange{From: 9}, began: api.TaskUse{WritesDenied: 2}}, s.task)
			require.False(t, s.mainStart.After(started))
			require.True(t, s.mainStart.After(then))
			require.Equal(t, "a.2", *s.auditTask.Load())
			require.NotNil(t, s.stepping.Load())
			return nil, errors.New("no such program")
		}})
	require.EqualError(t, err, "no such program")
	require.False(t, started.IsZero())
	require.Equal(t, was, s.task)
	require.Equal(t, then, s.mainStart)
	require.Nil(t, s.auditTask.Load())
	require.Nil(t, s.stepping.Load())
}
