package shim

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/shim/wire"
	"polis/daemon/task"
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
