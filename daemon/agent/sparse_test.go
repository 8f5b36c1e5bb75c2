package agent

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/config"
)

func TestSparseCheckoutOfANewAgent(t *testing.T) {
	m, ws := &Manager{Log: slog.New(slog.DiscardHandler)}, &Workspace{Name: "ws", Git: true, Repo: fakeRepo{}, Queue: struct{ Queue }{}}
	dirs := func(d ...string) *api.Sparse { return &api.Sparse{Directories: d} }
	for name, c := range map[string]struct {
		typ  []string
		req  api.AddRequest
		want *api.Sparse
		note string
	}{
		"that of the owner":           {want: dirs("owners")},
		"that of the type":            {typ: []string{"b/", "a"}, want: dirs("a", "b")},
		"a type with all files":       {typ: []string{}},
		"that of the request":         {typ: []string{"b"}, req: api.AddRequest{Sparse: []string{"a/x", "a/x/y"}}, want: dirs("a/x")},
		"all files":                   {typ: []string{"b"}, req: api.AddRequest{NoSparse: true}},
		"that of another agent":       {typ: []string{"b"}, req: api.AddRequest{Cone: dirs("c")}, want: dirs("c")},
		"none of a read-only agent":   {req: api.AddRequest{ReadOnly: true}},
		"a directory that is missing": {req: api.AddRequest{Sparse: []string{"missing/x"}}, want: dirs("missing/x"), note: `the target branch has no directory "missing/x"`},
	} {
		got, notices, err := m.sparseOf(t.Context(), ws, config.BaseType{Name: "t", Sparse: c.typ}, c.req)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
		if c.note == "" {
			require.Empty(t, notices, name)
		} else {
			require.Contains(t, notices[0], c.note, name)
		}
	}
	for _, req := range []api.AddRequest{{Sparse: []string{"../x"}}, {Sparse: []string{"a"}, NoSparse: true}, {Sparse: []string{""}}} {
		_, _, err := m.sparseOf(t.Context(), ws, config.BaseType{}, req)
		require.Equal(t, api.CodeBadRequest, api.CodeOf(err), "%+v", req)
	}
	_, _, err := m.sparseOf(t.Context(), &Workspace{Name: "plain"}, config.BaseType{}, api.AddRequest{Sparse: []string{"a"}})
	require.Error(t, err)
	s, _, err := m.sparseOf(t.Context(), &Workspace{Name: "plain"}, config.BaseType{}, api.AddRequest{})
	require.NoError(t, err)
	require.Nil(t, s)
}
