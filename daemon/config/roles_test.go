package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestModelsOfRoles(t *testing.T) {
	c, err := Parse("[roles.a]\nmodel = \"opus\"\nmodels = { codex = \"gpt-5.5\" }\n")
	require.NoError(t, err)
	require.Equal(t, "opus", c.RoleModel("a", "claude"))
	require.Equal(t, "gpt-5.5", c.RoleModel("a", "codex"))
	require.Empty(t, c.RoleModel("none", "claude"))
	for want, text := range map[string]string{
		`roles.a.model = "--x"`:          "[roles.a]\nmodel = \"--x\"",
		`roles.a.models.codex = "a b"`:   "[roles.a.models]\ncodex = \"a b\"",
		"must be the name of a base typ": "[roles.a.models]\n\"A b\" = \"x\"",
	} {
		_, err := Parse(text)
		require.ErrorContains(t, err, want)
		require.Equal(t, api.CodeInvalidConfig, api.CodeOf(err))
	}
}

// TestLinesWithTheModelOfARole: every built-in type that takes a model does so with a task and without.
func TestLinesWithTheModelOfARole(t *testing.T) {
	types, err := LoadTypes(t.TempDir(), Sandbox{})
	require.NoError(t, err)
	require.Equal(t, []string{"claude", "--model", "opus"}, types["claude"].StartWith(nil, "opus"))
	require.Equal(t, []string{"claude"}, types["claude"].StartWith(nil, ""))
	require.Equal(t, []string{"sh"}, types["claude"].StartWith([]string{"sh"}, "opus"), "a line of its own is not changed")
	require.Empty(t, types["custom"].StartWith(nil, "opus"))
	require.Equal(t, []string{"kiro-cli", "chat"}, types["kiro"].StartWith(nil, "opus"))
	for name, typ := range types {
		if typ.TakesModel(nil) {
			require.Contains(t, typ.StartWith(nil, "opus"), "opus", name)
		}
	}
}

func TestFilesForModelsThatAreRefused(t *testing.T) {
	for _, ok := range []string{"", "~/.tool/AGENTS.md", "/etc/tool/AGENTS.md"} {
		require.NoError(t, checkContext(ok), ok)
	}
	for _, bad := range []string{"AGENTS.md", "/etc/AGENTS.md", "/etc/../x/y", "~/../x", "~/", "/usr/share/x", "/etc/a/\nb"} {
		require.ErrorContains(t, checkContext(bad), "context", bad)
	}
}
