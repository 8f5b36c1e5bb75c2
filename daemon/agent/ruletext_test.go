package agent

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/store"
)

// refusedRule requires the refusal of a rule, with the form that says what was meant.
func refusedRule(t *testing.T, err error, field, rule, escaped string) {
	t.Helper()
	var e *api.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, api.CodeBadRequest, e.Code)
	require.Equal(t, []any{field, rule, escaped}, []any{e.Details["field"], e.Details["rule"], e.Details["escaped"]})
	require.Contains(t, e.Hint, escaped)
}

func TestRulesThatMeanOtherNamesThanTheySpell(t *testing.T) {
	for name, c := range map[string]struct {
		files   []string
		rules   api.Policy
		field   string // "" if the rules are accepted
		rule    string
		escaped string
	}{
		"a denied directory":      {[]string{"secret[1]/key"}, api.Policy{Deny: []string{"secret[1]/"}}, "policy.deny", "secret[1]/", `secret\[1\]/`},
		"routes":                  {[]string{"app/[id]/page.tsx"}, api.Policy{Write: []string{"app/[id]/**"}}, "policy.write", "app/[id]/**", `app/\[id\]/**`},
		"routes that catch all":   {[]string{"app/[[...slug]]/page.tsx"}, api.Policy{Hide: []string{"app/[[...slug]]/**"}}, "policy.hide", "app/[[...slug]]/**", `app/\[\[...slug\]\]/**`},
		"an exception":            {[]string{"app/[id]/page.tsx"}, api.Policy{Deny: []string{"app/**", "!app/[id]/**"}}, "policy.deny", "!app/[id]/**", `!app/\[id\]/**`},
		"a set that names files":  {[]string{"app/[id]/page.tsx", "app/d/x"}, api.Policy{Write: []string{"app/[id]/**"}}, "", "", ""},
		"no such names":           {[]string{"src/a"}, api.Policy{Write: []string{"app/[id]/**"}}, "", "", ""},
		"escaped":                 {[]string{"app/[id]/page.tsx"}, api.Policy{Write: []string{`app/\[id\]/**`}}, "", "", ""},
		"a negation at the start": {nil, api.Policy{Hide: []string{"!keys/"}}, "policy.hide", "!keys/", `\!keys/`},
		"a negation of others":    {nil, api.Policy{Write: []string{"/src/**", "!/keys/"}}, "policy.write", "!/keys/", `\!/keys/`},
		"a true exception":        {nil, api.Policy{Hide: []string{"**", "!keys/"}}, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t.TempDir())
			defer w.Close()
			_, err := w.Add(t.Context(), api.AddRequest{Name: "a1", BaseType: "custom"})
			require.NoError(t, err)
			w.k.files = c.files
			_, added := w.Add(t.Context(), api.AddRequest{Name: "a2", BaseType: "custom", AgentSpec: api.AgentSpec{Policy: &c.rules}})
			_, set := w.Set(t.Context(), "a1", api.SetRequest{Policy: &c.rules})
			if c.field == "" {
				require.NoError(t, errors.Join(added, set))
				return
			}
			refusedRule(t, added, c.field, c.rule, c.escaped)
			refusedRule(t, set, c.field, c.rule, c.escaped)
			require.Len(t, w.mem.kept, 1, "nothing is left of the agent that was refused")
		})
	}
}

func TestRuleOfARoleThatMeansOtherNames(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	c := w.config()
	c.Roles = map[string]config.Role{"web": {Policy: api.Policy{Write: []string{"app/[id]/**"}}}}
	w.SetConfig(c)
	_, err := w.Add(t.Context(), api.AddRequest{Name: "a1", BaseType: "custom", AgentSpec: api.AgentSpec{Role: "web"}})
	require.NoError(t, err, "there is no file of that name yet")
	w.k.files = []string{"app/[id]/page.tsx"}
	_, err = w.Add(t.Context(), api.AddRequest{Name: "a2", BaseType: "custom", AgentSpec: api.AgentSpec{Role: "web"}})
	refusedRule(t, err, "roles.web.write", "app/[id]/**", `app/\[id\]/**`)
	_, err = w.Set(t.Context(), "a1", api.SetRequest{MemoryMB: 128})
	require.NoError(t, err, "a change of something else does not look at rules that were accepted")
}

// TestWorkersRuleIsComparedWithWhatTheParentSees: an agent finds out nothing about hidden files.
func TestWorkersRuleIsComparedWithWhatTheParentSees(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	_, err := w.Add(t.Context(), api.AddRequest{Name: "a1", BaseType: "custom", AgentSpec: api.AgentSpec{Policy: &api.Policy{Hide: []string{"hidden/"}}}})
	require.NoError(t, err)
	sees := w.sight(&store.Worker{Parent: "a1"})
	w.k.files = []string{"hidden/[k]", "app/[id]/page"}
	ws, err := w.Workspace("")
	require.NoError(t, err)
	require.NoError(t, w.checkBrackets(t.Context(), ws, api.Policy{Deny: []string{"hidden/[k]"}}, "", sees))
	refusedRule(t, w.checkBrackets(t.Context(), ws, api.Policy{Deny: []string{"app/[id]/"}}, "", sees), "policy.deny", "app/[id]/", `app/\[id\]/`)
	refusedRule(t, w.checkBrackets(t.Context(), ws, api.Policy{Deny: []string{"hidden/[k]"}}, "", nil), "policy.deny", "hidden/[k]", `hidden/\[k\]`)
}
