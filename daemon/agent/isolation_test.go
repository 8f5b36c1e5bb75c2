package agent

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/host/isolation"
	"polis/daemon/store"
)

func lost(capabilities ...string) []api.Loss {
	codes := map[string]api.Code{isolation.Mount: api.CodeMountNSFailed, isolation.PID: api.CodePIDNSFailed, isolation.Network: api.CodeNetNSFailed}
	var out []api.Loss
	for _, c := range capabilities {
		code, ok := codes[c]
		if !ok {
			code = api.CodeNamespaceFailed
		}
		out = append(out, api.Loss{Capability: c, Code: code, Found: "refused", Cost: "much"})
	}
	return out
}

func TestAgentsAreRefusedWithoutIsolationUnlessItIsAllowed(t *testing.T) {
	for name, c := range map[string]struct {
		lost  []api.Loss
		say   string
		want  api.Code
		allow bool
	}{
		"everything is there":             {nil, config.DegradedRefuse, "", true},
		"no network":                      {lost(isolation.Network), config.DegradedRefuse, api.CodeNetNSFailed, false},
		"no network, allowed":             {lost(isolation.Network), config.DegradedAllow, "", true},
		"no processes":                    {lost(isolation.PID, isolation.Network), config.DegradedRefuse, api.CodePIDNSFailed, false},
		"no processes, allowed":           {lost(isolation.PID, isolation.Network), config.DegradedAllow, "", true},
		"no queues":                       {lost(isolation.IPC), config.DegradedRefuse, api.CodeNamespaceFailed, false},
		"no mounts":                       {lost(isolation.Mount), config.DegradedRefuse, api.CodeMountNSFailed, false},
		"no mounts cannot be allowed":     {lost(isolation.Mount), config.DegradedAllow, api.CodeMountNSFailed, false},
		"nothing at all, nor if allowed":  {lost(isolation.Mount, isolation.PID, isolation.Network), config.DegradedAllow, api.CodeMountNSFailed, false},
		"a configuration of before: none": {lost(isolation.Network), "", api.CodeNetNSFailed, false},
	} {
		t.Run(name, func(t *testing.T) {
			conf := config.Default()
			conf.Sandbox.Degraded = c.say
			m := &Manager{Config: conf, Lost: c.lost}
			m.cfgLive = &conf
			err := m.Isolated()
			require.Equal(t, c.allow, err == nil, "%v", err)
			if err != nil {
				require.Equal(t, c.want, api.CodeOf(err))
				require.NotEmpty(t, api.AsError(err).Hint)
			}
			var a api.Agent
			m.isolation(&a)
			require.Equal(t, len(c.lost) > 0, a.Isolation == "degraded")
			require.Len(t, a.Lost, len(c.lost))
		})
	}
}

// Feature: multi-agent-workspaces, Property 30: Degraded Mode Port Allocation
func TestPortsInTheHostsNetwork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lo := rapid.IntRange(3001, 5000).Draw(t, "lo")
		hi := lo + rapid.IntRange(200, 3000).Draw(t, "width")
		conf := config.Default()
		conf.Network.Ports = itoa(lo) + "-" + itoa(hi)
		m := &Manager{Config: conf, Lost: lost(isolation.Network), Ports: newFakePorts(lo, hi), agents: map[string]*Agent{}}
		m.cfgLive = &conf
		seen := map[int]bool{}
		for i := range rapid.IntRange(1, 12).Draw(t, "agents") {
			a := &Agent{WS: &Workspace{}, Kept: store.Agent{Name: "a" + itoa(i)}}
			m.agents[a.Name()] = a
			var asked []store.PortMap
			for _, p := range rapid.SliceOfNDistinct(rapid.IntRange(1, 65535), 0, 4, rapid.ID[int]).Draw(t, "ports") {
				asked = append(asked, store.PortMap{Internal: p, Protocol: api.ProtoTCP})
			}
			maps := m.hostMaps(asked)
			if len(maps) != max(1, len(asked)) {
				t.Fatalf("%d ports for %d asked", len(maps), len(asked))
			}
			for j, p := range maps {
				ext, err := m.Ports.Take(t.Context(), a.key(p), "127.0.0.1", 1, p.External)
				if err != nil {
					t.Fatal(err)
				}
				if ext < lo || ext > hi || seen[ext] {
					t.Fatalf("port %d of %d-%d, taken: %v", ext, lo, hi, seen[ext])
				}
				if len(asked) > 0 && p.Internal != asked[j].Internal {
					t.Fatal("another port than was asked for")
				}
				seen[ext] = true
				p.External = ext
				a.setMap(p, "")
			}
		}
	})
}

func TestPortsInTheHostsNetworkAreChosenByChance(t *testing.T) {
	conf := config.Default()
	m := &Manager{Config: conf, Lost: lost(isolation.Network), agents: map[string]*Agent{}}
	m.cfgLive = &conf
	seen := map[int]bool{}
	for range 50 {
		seen[m.hostMaps(nil)[0].External] = true
	}
	require.Greater(t, len(seen), 25)
}
