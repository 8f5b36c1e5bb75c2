package agent

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/internal/nonzero"
)

// TestAnAgentGivesItsWorkerNothingThatItHasNot: a worker of an agent is described as any agent is, so each field of the
// description is refused if it has more than the agent. A field that is added gets a line here, too.
func TestAnAgentGivesItsWorkerNothingThatItHasNot(t *testing.T) {
	ctx := t.Context()
	w := newWorld(t.TempDir())
	defer w.Close()
	has := api.Limits{Pids: 100, CPUWeight: 50, CPUPercent: 50, IOWeight: 50, DiskMB: 100, DiskFiles: 1000, Connections: 20}
	_, err := w.Add(ctx, api.AddRequest{Name: "a1", BaseType: "custom", AgentSpec: api.AgentSpec{Command: []string{"do"}, Policy: &api.Policy{Read: []string{"docs/**"}, Write: []string{"docs/**"}},
		MemoryMB: 500, Limits: has, Egress: []string{"x.org"}, HostPorts: []uint16{80}}})
	require.NoError(t, err)
	more := map[string]func(*api.AgentSpec){
		"Workspace":   func(s *api.AgentSpec) { s.Workspace = "other" },
		"Role":        func(s *api.AgentSpec) { s.Role = "other" },
		"Policy":      func(s *api.AgentSpec) { s.Policy = &api.Policy{Write: []string{"src/**"}} },
		"MemoryMB":    func(s *api.AgentSpec) { s.MemoryMB = 501 },
		"Pids":        func(s *api.AgentSpec) { s.Pids = 101 },
		"CPUWeight":   func(s *api.AgentSpec) { s.CPUWeight = 51 },
		"CPUPercent":  func(s *api.AgentSpec) { s.CPUPercent = 51 },
		"IOWeight":    func(s *api.AgentSpec) { s.IOWeight = 51 },
		"DiskMB":      func(s *api.AgentSpec) { s.DiskMB = 101 },
		"DiskFiles":   func(s *api.AgentSpec) { s.DiskFiles = 1001 },
		"Connections": func(s *api.AgentSpec) { s.Connections = 21 },
		"Egress":      func(s *api.AgentSpec) { s.Egress = []string{"y.org"} },
		"HostPorts":   func(s *api.AgentSpec) { s.HostPorts = []uint16{81} },
		"Force":       func(s *api.AgentSpec) { s.Force = true },
	}
	plain := api.DelegateRequest{Branch: "feat/x", Task: "t"}
	_, _, err = w.workerOf(ctx, "a1", plain)
	require.NoError(t, err)
	for _, f := range reflect.VisibleFields(reflect.TypeFor[api.AgentSpec]()) {
		if f.Anonymous || f.Name == "Command" { // what it runs has the rules of the sandbox
			continue
		}
		require.NotNil(t, more[f.Name], "%s: may the worker of an agent have it?", f.Name)
		req := plain
		more[f.Name](&req.AgentSpec)
		_, _, err := w.workerOf(ctx, "a1", req)
		require.Error(t, err, f.Name)
		require.Contains(t, []api.Code{api.CodeForbidden, api.CodeQuota}, api.CodeOf(err), "%s: %v", f.Name, err)
	}
}

func TestAPersonsWorkerIsWhatTheRequestSays(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	req := api.DelegateRequest{Branch: "feat/x", Task: "t", BaseType: "custom", AgentSpec: nonzero.Of[api.AgentSpec]()}
	req.Workspace = "w"
	add, _, err := w.workerOf(t.Context(), "", req)
	require.NoError(t, err)
	require.Empty(t, nonzero.Missing(add.AgentSpec))
	require.Equal(t, req.AgentSpec, add.AgentSpec)
}
