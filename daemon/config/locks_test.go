package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/api/setting"
)

func TestLockRulesOfARole(t *testing.T) {
	c, err := Parse(`
[locks]
hold = "close"
on_conflict = "fail"
trees = "deny"
[[locks.rule]]
glob = "docs/**"
on_conflict = "10s"
[[locks.rule]]
glob = "go.sum"
hold = "merge"
[roles.writer]
write = ["**"]
[roles.writer.locks]
on_conflict = "1s"
trees = "ask"
[[roles.writer.locks.rule]]
glob = "*.md"
hold = "5m"
`)
	require.NoError(t, err)
	docs, sum := setting.LockRule{Glob: "docs/**", OnConflict: "10s"}, setting.LockRule{Glob: "go.sum", Hold: "merge"}
	require.Equal(t, LockRules{Hold: "close", OnConflict: "fail", Trees: setting.Deny, Rules: []setting.LockRule{docs, sum}}, c.LockRules(""))
	require.Equal(t, LockRules{Hold: "close", OnConflict: "1s", Trees: setting.Ask, Rules: []setting.LockRule{docs, sum, {Glob: "*.md", Hold: "5m"}}}, c.LockRules("writer"))
	require.Equal(t, c.LockRules(""), c.LockRules("gone"))
	require.Equal(t, []string{"**"}, c.Roles["writer"].Write)
	d := Default()
	require.Equal(t, LockRules{Hold: "30s", OnConflict: "3s", Trees: setting.Allow}, d.LockRules(""))
}

func TestLockRulesThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":         {"[locks]\non_conflct = \"fail\"", `unknown key "locks.on_conflct"`},
		"unknown key in rule": {"[[locks.rule]]\nglob = \"x\"\nholds = \"1s\"", `unknown key "locks.rule.holds"`},
		"unknown key in role": {"[roles.a.locks]\nexempt = [\"x\"]", `unknown key "roles.a.locks.exempt"`},
		"both words":          {"[locks]\nwait = \"1s\"\non_conflict = \"1s\"", "say the same"},
		"conflict word":       {"[locks]\non_conflict = \"wait\"", "locks.on_conflict"},
		"conflict too long":   {"[locks]\non_conflict = \"1h\"", "locks.on_conflict"},
		"trees empty":         {"[locks]\ntrees = \"\"", "locks.trees"},
		"role's trees":        {"[roles.a.locks]\ntrees = \"maybe\"", "roles.a.locks.trees"},
		"hold empty":          {"[locks]\nhold = \"\"", "locks.hold"},
		"hold too long":       {"[locks]\nhold = \"25h\"", "locks.hold"},
		"hold negative":       {"[locks]\nhold = \"-1s\"", "locks.hold"},
		"role's hold":         {"[roles.a.locks]\nhold = \"x\"", "roles.a.locks.hold"},
		"rule without glob":   {"[[locks.rule]]\nhold = \"1s\"", "locks.rule[0].glob"},
		"rule says nothing":   {"[[locks.rule]]\nglob = \"x\"", "neither hold nor on_conflict"},
		"rule's glob":         {"[[locks.rule]]\nglob = \"[x\"\nhold = \"1s\"", "locks.rule[0].glob"},
		"rule negated":        {"[[locks.rule]]\nglob = \"!x\"\nhold = \"1s\"", "cannot begin with"},
		"rule's hold":         {"[[locks.rule]]\nglob = \"x\"\nhold = \"y\"", "locks.rule[0].hold"},
		"rule's conflict":     {"[[locks.rule]]\nglob = \"x\"\non_conflict = \"y\"", "locks.rule[0].on_conflict"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(c.text)
			require.Error(t, err)
			require.Equal(t, api.CodeInvalidConfig, api.CodeOf(err))
			require.Contains(t, err.Error(), c.want)
		})
	}
}
