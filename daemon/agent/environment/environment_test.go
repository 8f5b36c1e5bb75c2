package environment

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/host/isolation"
	"polis/daemon/store"
	"polis/daemon/store/layout"
)

func newBuilder(t *testing.T, lost ...string) (*Builder, *agent.Agent) {
	dir := t.TempDir()
	b := &Builder{Run: layout.Run(filepath.Join(dir, "run")), Config: config.Default, Lost: func() []string { return lost }, SocketGID: -1, Log: slog.New(slog.DiscardHandler),
		Cgroup: func(name string) (string, bool) { return "/polis/" + name, true }}
	ws := &agent.Workspace{Name: "shop", Root: layout.Workspace(filepath.Join(dir, "ws")), Project: "/src/shop", Git: true, UID: 64923, GID: 64923}
	return b, &agent.Agent{WS: ws, Kept: store.Agent{Name: "ann"}}
}

func TestAnAgentWhoseRulesWithholdFilesNeedsFilteredObjects(t *testing.T) {
	b, a := newBuilder(t)
	require.NoError(t, checkObjects(a))
	a.Kept.Policy = api.Policy{Write: []string{"**"}, Hide: []string{"secret/**"}}
	_, err := b.Prepare(a, filepath.Join(t.TempDir(), "ann"))
	require.ErrorContains(t, err, "no filtered objects")
	a.Filtered = "/objects"
	require.NoError(t, checkObjects(a))
	a.Filtered, a.WS.Git = "", false
	require.NoError(t, checkObjects(a), "a plain directory has no objects")
}

func TestEgressThatCannotBeReadAllowsNothing(t *testing.T) {
	b, a := newBuilder(t)
	a.Kept.Egress = []string{"registry.example"}
	require.Equal(t, a.Kept.Egress, b.Settings(a).Egress)
	a.Kept.Egress = []string{"not an entry"}
	s := b.Settings(a)
	require.Equal(t, []string{"none"}, s.Egress)
	require.Empty(t, s.Private)
	require.Empty(t, s.HostPorts)
}

func TestAUserWithoutAnAccountGetsANameAndAHome(t *testing.T) {
	name, home := Account(64923)
	require.Equal(t, "polis", name)
	require.Equal(t, "/home/polis", home)
}

func TestPortsOfAnAgentInTheHostsNetworkAreVariables(t *testing.T) {
	b, a := newBuilder(t, isolation.Network)
	a.Kept.PortMappings = []store.PortMap{{Internal: 3000, External: 20001}, {Internal: 20002, External: 20002}}
	require.Equal(t, []string{"PORT=20001", "PORT_3000=20001"}, b.Spec(a, "/run/ann").Env)
	b.Lost = func() []string { return nil }
	require.Empty(t, b.Spec(a, "/run/ann").Env)
}

func TestTheAuthorOfCommitsIsTheConfiguredOneThenTheProjects(t *testing.T) {
	b, a := newBuilder(t)
	s := b.Spec(a, "/run/ann")
	require.Equal(t, []string{"ann", "ann@" + api.Domain}, []string{s.FullName, s.Email})
	a.Identity.Author.Name = "Ann of the project"
	s = b.Spec(a, "/run/ann")
	require.Equal(t, []string{"Ann of the project", "ann@" + api.Domain}, []string{s.FullName, s.Email})
	c := config.Default()
	c.Git.Identity.Name = "Bot"
	b.Config = func() config.Config { return c }
	require.Equal(t, "Bot", b.Spec(a, "/run/ann").FullName)
}

func TestTheModelOfARoleIsInTheEnvironment(t *testing.T) {
	b, a := newBuilder(t)
	c := config.Default()
	c.Roles = map[string]config.Role{"worker": {Model: "sonnet", Models: map[string]string{"codex": "gpt-5.5"}, Env: map[string]string{"X": "1"}}}
	b.Config = func() config.Config { return c }
	a.Kept.Role, a.Kept.BaseType, a.Type = "worker", "claude", config.BaseType{ModelEnv: "ANTHROPIC_MODEL"}
	require.Equal(t, []string{"ANTHROPIC_MODEL=sonnet", "POLIS_MODEL=sonnet", "X=1"}, b.Settings(a).Vars)
	a.Kept.BaseType, a.Type = "codex", config.BaseType{}
	require.Equal(t, []string{"POLIS_MODEL=gpt-5.5", "X=1"}, b.Settings(a).Vars)
	a.Kept.Env = map[string]string{"X": "own"}
	require.Equal(t, []string{"POLIS_MODEL=gpt-5.5", "X=own"}, b.Settings(a).Vars)
	a.Kept.Role = ""
	require.Equal(t, []string{"X=own"}, b.Settings(a).Vars)
}
