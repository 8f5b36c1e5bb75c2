package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestRulesThatNegateNothingAreRefused(t *testing.T) {
	for text, c := range map[string]struct{ field, escaped string }{
		"[roles.a]\nhide = [\"!keys/\"]":                                                  {"roles.a.hide[0]", `\!keys/`},
		"[roles.a]\nwrite = [\"/src/**\", \"!/keys/\"]":                                   {"roles.a.write[1]", `\!/keys/`},
		"[roles.a]\nexclusive = [\"!x\", \"x\"]":                                          {"roles.a.exclusive[0]", `\!x`},
		"[shared]\npaths = [\"!x\"]":                                                      {"shared.paths[0]", `\!x`},
		"[merge]\nprotected = [\"!x\"]":                                                   {"merge.protected[0]", `\!x`},
		"[locks]\nexempt = [\"*.log\", \"!x\"]":                                           {"locks.exempt[1]", `\!x`},
		"[[locks.rule]]\nglob = \"!x\"\nhold = \"1s\"":                                    {"locks.rule[0].glob", `\!x`},
		"[snapshots]\nignored = [\"!x\"]":                                                 {"snapshots.ignored[0]", `\!x`},
		"[workspace]\nworktree=\"shared\"\n[workspace.setup]\nrun=\"x\"\ninputs=[\"!x\"]": {"workspace.setup.inputs[0]", `\!x`},
	} {
		_, err := Parse(text)
		var e *api.Error
		require.ErrorAs(t, err, &e, text)
		require.Equal(t, api.CodeInvalidConfig, e.Code)
		require.Contains(t, e.Message, c.field)
		require.Equal(t, []any{c.field, c.escaped}, []any{e.Details["field"], e.Details["escaped"]}, text)
		require.Contains(t, e.Hint, c.escaped)
	}
	for _, text := range []string{"[roles.a]\nhide = [\"**\", \"!keys/\"]", "[roles.a]\nhide = ['\\!keys/']", "[merge]\nprotected = [\".github\", \"!.github/x\"]"} {
		_, err := Parse(text)
		require.NoError(t, err, text)
	}
}

func TestMalformedRulesOfRolesAreRefused(t *testing.T) {
	for _, text := range []string{"[roles.a]\ndeny = [\"a[\"]", "[roles.a]\nwrite = [\"\"]", "[locks]\nexempt = [\"[\"]"} {
		_, err := Parse(text)
		require.Equal(t, api.CodeInvalidConfig, api.CodeOf(err), text)
	}
}
