package agent

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/config"
)

func TestAnAgentThatIsNotLoggedInIsReported(t *testing.T) {
	typ := config.BaseType{Program: "claude", Login: "claude", PassEnv: []string{"MODEL", "A_KEY"}, Home: []config.HomeFile{{Path: ".no-such-login", Mode: config.HomeCredentials}}}
	v := api.Agent{Name: "alice"}
	owner := os.Getuid()
	got := noLogin(v, typ, owner)
	require.Len(t, got, 1)
	require.Contains(t, got[0], ".no-such-login")
	require.Contains(t, got[0], "as the owner run: claude")
	require.Contains(t, got[0], "polisctl agents set alice --env A_KEY")

	withKey, custom, passed := v, v, typ
	withKey.Env = []string{"A_KEY"}
	custom.Command = []string{"sh"}
	passed.PassedEnv = []string{"A_KEY"}
	require.Empty(t, noLogin(withKey, typ, owner))
	require.Empty(t, noLogin(custom, typ, owner))
	require.Empty(t, noLogin(v, passed, owner))
	require.Empty(t, noLogin(v, config.BaseType{Program: "sh"}, owner))
}
