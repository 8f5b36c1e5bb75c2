package environment

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/config"
	"polis/daemon/rules/hook"
)

// polisctl agents types names the file of a hook: it is the one that the shim makes in the sandbox.
func TestBaseTypesNameTheHookFileThatIsMade(t *testing.T) {
	types, err := config.LoadTypes("/nonexistent", config.Sandbox{})
	require.NoError(t, err)
	named := map[string]bool{}
	for name, typ := range types {
		if typ.Permissions.Kind != "hook" {
			require.Empty(t, typ.Permissions.File, name)
			require.Empty(t, hookOf(typ), name)
			continue
		}
		require.Equal(t, name, hookOf(typ), "no other program reads %s", typ.Permissions.File)
		named[name] = true
	}
	for _, p := range hook.Programs() {
		require.True(t, named[p.Name], p.Name)
	}
}
