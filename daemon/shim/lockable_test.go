package shim

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/fusefs/policy"
	"polis/fusefs/view"
)

// An agent locks what it may write, and a whole tree only if that is all its own.
func TestWhatAnAgentMayLockByName(t *testing.T) {
	set, err := policy.Compile(policy.Rules{Read: []string{"docs/**"}, Write: []string{"src/a/**", "own/**"}, Ask: []string{"own/asked"}, Deny: []string{"src/a/**/secret"}})
	require.NoError(t, err)
	guard, err := view.New(view.Config{Agent: "ann", Locker: locker{}}, set)
	require.NoError(t, err)
	s := &Shim{Spec: wire.Spec{Agent: "ann"}, views: &views{guard: guard}}
	for _, tc := range []struct {
		path       string
		tree, read bool
		want       api.Code
	}{
		{"src/a/x", false, false, ""},
		{"own/asked", false, false, ""},
		{"docs/x", false, true, ""},
		{"docs/x", false, false, api.CodeUndeclaredWrite},
		{"src/b", false, false, api.CodeUndeclaredWrite},
		{"src/b", false, true, api.CodeUndeclaredRead},
		{"src", true, false, api.CodeUndeclaredWrite},
		{"src", true, true, api.CodeUndeclaredWrite},
		{"src/a", true, false, api.CodeUndeclaredWrite}, // a name below is denied
		{"own", true, false, api.CodeUndeclaredWrite},   // one needs an approval
		{"docs", true, true, api.CodeUndeclaredWrite},
		{"../x", true, false, api.CodePathTraversal},
	} {
		_, err := s.lockable(tc.path, tc.tree, tc.read)
		if tc.want == "" {
			require.NoError(t, err, "%+v", tc)
			continue
		}
		require.Equal(t, tc.want, api.CodeOf(err), "%+v", tc)
	}
	free, err := policy.Compile(policy.Rules{Write: []string{"own/**"}})
	require.NoError(t, err)
	guard.SetPolicy(free)
	for _, read := range []bool{false, true} {
		_, err = s.lockable("own/dir", true, read)
		require.NoError(t, err)
	}
}
