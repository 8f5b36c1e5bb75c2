package shim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

func TestWhatAModelLearnsOfPolis(t *testing.T) {
	sp := wire.Spec{Agent: "claude", Git: true, Branch: "agent/claude", Target: "main", ProjectPath: "/srv/project"}
	text := contextText(sp, wire.Settings{Role: "docs", Policy: api.Policy{Read: []string{"**"}, Write: []string{"docs/**"}, Ask: []string{"deploy/"}, Deny: []string{"*.pem"}, Hide: []string{"secret/**"}}, Egress: []string{"none"}})
	for _, want := range []string{"agent claude", "role is docs", "/srv/project", "branch agent/claude", "into main", "you may write `docs/**`", "a person must approve `deploy/`", "denied are `*.pem`",
		"/run/polis/why", "polisctl wait PATH", "polisctl ask", "nothing outside is reachable"} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "secret", "names of hidden paths are not for the agent")
	require.LessOrEqual(t, strings.Count(text, "\n"), 14)

	require.NotContains(t, text, "Services")
	require.Contains(t, contextText(sp, wire.Settings{Vars: []string{"A=1", "POLIS_SERVICE_NPM=http://npm.polis.internal:11717"}}), "$POLIS_SERVICE_NPM (http://npm.polis.internal:11717).")

	text = contextText(wire.Spec{Agent: "a", ProjectPath: "/p", Settings: wire.Settings{Policy: api.Policy{Temp: true}}}, wire.Settings{Egress: []string{"open"}})
	require.Contains(t, text, "everything that no rule withholds")
	require.Contains(t, text, "$TMPDIR")
	require.NotContains(t, text, "branch")
	sp.ReadOnly = true
	text = contextText(sp, wire.Settings{Policy: api.Policy{Write: []string{"docs/**"}}})
	require.Contains(t, text, "you are read-only")
	require.Contains(t, text, "you may read `docs/**`")
	require.NotContains(t, text, "branch")
	sp.ReadOnly = false
	require.Contains(t, contextText(sp, wire.Settings{Policy: api.Policy{Read: []string{"**"}}}), "you may write nothing")
}

func TestTheTextForAModelIsBounded(t *testing.T) {
	var many []string
	for i := range 200 {
		many = append(many, fmt.Sprintf("dir%d/**`\n%s", i, strings.Repeat("x", 4000)))
	}
	text := contextText(wire.Spec{Agent: "a"}, wire.Settings{Policy: api.Policy{Read: many, Write: many, Ask: many, Deny: many}, Egress: many[:20]})
	require.Less(t, len(text), 40000)
	require.Regexp(t, `and 194 more\. All rules are in /run/polis/policy\.$`, filesText(api.Policy{Write: many}))
	require.Contains(t, networkText(wire.Settings{Egress: []string{"a", "b", "c", "d", "e", "f", "g", "h"}}), "f and 2 more (polisctl --json agents list, on the host, has all) can be reached")
	services := []string{"OTHER=x"}
	for i := range 8 {
		services = append(services, fmt.Sprintf("POLIS_SERVICE_%d=http://x", i))
	}
	require.Contains(t, servicesText(services), "$POLIS_SERVICE_5 (http://x) and 2 more (env | grep ^POLIS_SERVICE_)")
	require.NotContains(t, servicesText(services[:7]), "more")
	require.Equal(t, 12, strings.Count(filesText(api.Policy{Write: many}), "`"), "a rule does not end its quotes")
}
