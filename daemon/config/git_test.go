package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestGitRulesOfAnAgent(t *testing.T) {
	c, err := Parse(`
[git]
remote = "fetch"
identity = { name = "Robot", email = "robot@example.org" }
[git.agents.boss]
remote = "push"
branches = ["release/*"]
ask = ["push"]
identity = { name = "The {agent}" }
[roles.locked.git]
remote = "none"
hooks = "run"
[roles.docs]
write = ["docs/**"]
`)
	require.NoError(t, err)
	typ := BaseType{Identity: Identity{Email: "{agent}@claude.example"}}
	for name, x := range map[string]struct {
		agent, role string
		want        GitRules
	}{
		"nothing of its own":     {"a", "", GitRules{Remote: RemoteFetch, Identity: Identity{"Robot", "{agent}@claude.example"}}},
		"a role that is silent":  {"a", "docs", GitRules{Remote: RemoteFetch, Identity: Identity{"Robot", "{agent}@claude.example"}}},
		"a role that takes away": {"a", "locked", GitRules{Remote: RemoteNone, Identity: Identity{"Robot", "{agent}@claude.example"}, Hooks: HooksRun}},
		"its own table wins":     {"boss", "locked", GitRules{Remote: RemotePush, Branches: []string{"release/*"}, Ask: []Remote{RemotePush}, Identity: Identity{"The {agent}", "{agent}@claude.example"}, Hooks: HooksRun}},
		"a role that has been":   {"a", "gone", GitRules{Remote: RemoteFetch, Identity: Identity{"Robot", "{agent}@claude.example"}}},
	} {
		if x.want.Hooks == "" {
			x.want.Hooks = HooksOff
		}
		require.Equal(t, x.want, c.GitRules(x.agent, x.role, typ), name)
	}
	require.Equal(t, Identity{"The boss", "boss@claude.example"}, c.GitRules("boss", "", typ).Identity.For("boss"))
	d := Default()
	require.Equal(t, RemoteNone, d.GitRules("a", "", BaseType{}).Remote)
}

func TestRemoteAllows(t *testing.T) {
	all := []Remote{RemoteNone, RemoteFetch, RemotePush}
	for i, has := range all {
		for j, want := range all {
			require.Equal(t, i >= j, has.Allows(want), "%s for %s", has, want)
		}
	}
	require.False(t, Remote("everything").Allows(RemoteFetch))
}

func TestGitMistakesAreRefused(t *testing.T) {
	for text, field := range map[string]string{
		"[git]\nask = [\"clone\"]":                 "git.ask",
		"[git]\nhooks = \"on\"":                    "git.hooks",
		"[git]\nremote = \"all\"":                  "git.remote",
		"[git]\ntrailer = \"Polis Agent\"":         "git.trailer",
		"[git]\nbranches = [\"a[\"]":               "git.branches",
		"[git]\nidentity = { name = \"a\\nb\" }":   "git.identity.name",
		"[git]\nidentity = { name = \"...\" }":     "git.identity.name",
		"[git]\nidentity = { email = \"<x>\" }":    "git.identity.email",
		"[git.agents.\"../x\"]\nremote = \"push\"": "git.agents.../x",
		"[git.agents.bob]\nremote = \"pull\"":      "git.agents.bob.remote",
		"[roles.x.git]\nremote = \"pull\"":         "roles.x.git.remote",
		"[maintenance]\ninterval = \"-1s\"":        "maintenance.interval",
		"[maintenance]\ngrace = \"1m\"":            "maintenance.grace",
		"[maintenance]\ntimeout = \"1s\"":          "maintenance.timeout",
	} {
		_, err := Parse(text)
		require.Equal(t, api.CodeInvalidConfig, api.CodeOf(err), text)
		require.ErrorContains(t, err, field, text)
	}
}
