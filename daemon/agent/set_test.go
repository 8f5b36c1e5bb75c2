package agent

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/config"
)

func kept(t require.TestingT, w *world, name string) api.SetRequest {
	for _, k := range w.mem.kept {
		if k.Name == name {
			return api.SetRequest{MemoryMB: k.MemoryLimitMB, Limits: k.Limits, Policy: &k.Policy, AutoMerge: k.AutoMerge}
		}
	}
	require.Fail(t, "not kept", name)
	return api.SetRequest{}
}

func TestSettingsAreKeptAndReachTheLivingShim(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	ctx := t.Context()
	_, err := w.Add(ctx, api.AddRequest{Name: "a1", BaseType: "custom", AgentSpec: api.AgentSpec{MemoryMB: 64, Policy: &api.Policy{Deny: []string{"a", "!b"}}}})
	require.NoError(t, err)
	no := false
	res, err := w.Set(ctx, "a1", api.SetRequest{MemoryMB: 128, Limits: api.Limits{Pids: 40}, Policy: &api.Policy{Deny: []string{"a", "c"}}, AutoMerge: &no})
	require.NoError(t, err)
	require.Equal(t, 128, res.Agent.MemoryLimitMB)
	require.Equal(t, []string{"!b", "a", "c"}, res.Agent.Policy.Deny, "a rule that is there already moves to the end")
	require.EqualValues(t, 128<<20, w.k.settings.MemoryBytes)
	require.Equal(t, 128, kept(t, w, "a1").MemoryMB)
	require.Equal(t, &no, kept(t, w, "a1").AutoMerge)

	_, err = w.Set(ctx, "a1", api.SetRequest{Reset: []string{"pids"}})
	require.NoError(t, err)
	require.Zero(t, kept(t, w, "a1").Pids)
	none := ""
	res, err = w.Set(ctx, "a1", api.SetRequest{Role: &none})
	require.NoError(t, err)
	require.Empty(t, res.Agent.Policy.Deny)
}

// TestResetRulesAreThoseOfTheRole whatever was added to them, and before what is added.
func TestResetRulesAreThoseOfTheRole(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	ctx := t.Context()
	c := w.config()
	c.Roles = map[string]config.Role{"docs": {Policy: api.Policy{Read: []string{"**"}, Write: []string{"docs/**"}, Deny: []string{".env"}}}}
	w.SetConfig(c)
	more := api.Policy{Deny: []string{"secret/**"}, Hide: []string{"x"}, Ask: []string{"y"}, Exclusive: []string{"docs/own/**"}}
	for name, tc := range map[string]struct {
		role string
		req  api.SetRequest
		want api.Policy
	}{
		"without a role": {"", api.SetRequest{Reset: []string{"deny", "hide"}}, api.Policy{Ask: more.Ask, Exclusive: more.Exclusive}},
		"all":            {"docs", api.SetRequest{Reset: api.ResetRules()}, api.Policy{Read: []string{"**"}, Write: []string{"docs/**"}, Deny: []string{".env"}}},
		"and added": {"docs", api.SetRequest{Reset: []string{"deny"}, Policy: &api.Policy{Deny: []string{"z"}}},
			api.Policy{Read: []string{"**"}, Write: []string{"docs/**"}, Deny: []string{".env", "z"}, Hide: more.Hide, Ask: more.Ask, Exclusive: more.Exclusive}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.Add(ctx, api.AddRequest{Name: "a1", BaseType: "custom", AgentSpec: api.AgentSpec{Role: tc.role}})
			require.NoError(t, err)
			defer func() {
				_, err := w.Remove(ctx, "a1", true, false)
				require.NoError(t, err)
			}()
			_, err = w.Set(ctx, "a1", api.SetRequest{Policy: &more})
			require.NoError(t, err)
			res, err := w.Set(ctx, "a1", tc.req)
			require.NoError(t, err)
			require.Equal(t, tc.want, clearedEmpty(res.Agent.Policy))
			require.Equal(t, tc.want, clearedEmpty(*kept(t, w, "a1").Policy))
		})
	}
	_, err := w.Add(ctx, api.AddRequest{Name: "a1", BaseType: "custom"})
	require.NoError(t, err)
	a, err := w.lookup("a1")
	require.NoError(t, err)
	a.Kept.Policy, a.Kept.RulesLost = closed(), true
	_, err = w.Set(ctx, "a1", api.SetRequest{Reset: []string{"deny"}})
	require.Equal(t, api.CodeBadRequest, api.CodeOf(err), "what was lost stays closed")
}

// clearedEmpty has nil for a list that is empty.
func clearedEmpty(p api.Policy) api.Policy {
	for _, l := range []*[]string{&p.Read, &p.Write, &p.Ask, &p.Deny, &p.Hide, &p.Exclusive} {
		if len(*l) == 0 {
			*l = nil
		}
	}
	return p
}

// TestWhatTheShimRefusesIsNotKept neither in memory nor on disk.
func TestWhatTheShimRefusesIsNotKept(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	_, err := w.Add(t.Context(), api.AddRequest{Name: "a1", BaseType: "custom", AgentSpec: api.AgentSpec{MemoryMB: 64}})
	require.NoError(t, err)
	w.k.fail = "set"
	_, err = w.Set(t.Context(), "a1", api.SetRequest{MemoryMB: 128, Policy: &api.Policy{Deny: []string{"x"}}})
	require.ErrorIs(t, err, errInjected)
	a, err := w.Get(t.Context(), "a1")
	require.NoError(t, err)
	require.Equal(t, 64, a.MemoryLimitMB)
	require.Empty(t, a.Policy.Deny)
	require.Equal(t, 64, kept(t, w, "a1").MemoryMB)
}

func TestSetRefusesBadRequests(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	_, err := w.Add(t.Context(), api.AddRequest{Name: "a1", BaseType: "custom"})
	require.NoError(t, err)
	king := "king"
	for name, req := range map[string]api.SetRequest{
		"memory":       {MemoryMB: -5},
		"pids":         {Limits: api.Limits{Pids: 1}},
		"cpu":          {Limits: api.Limits{CPUPercent: -2}},
		"cpu weight":   {Limits: api.Limits{CPUWeight: 10001}},
		"io weight":    {Limits: api.Limits{IOWeight: 1001}},
		"disk":         {Limits: api.Limits{DiskMB: 1}},
		"files":        {Limits: api.Limits{DiskFiles: 99}},
		"connections":  {Limits: api.Limits{Connections: 15}},
		"reset":        {Reset: []string{"memory"}},
		"unknown role": {Role: &king},
		"empty rule":   {Policy: &api.Policy{Read: []string{""}}},
		"bad rule":     {Policy: &api.Policy{Deny: []string{"[z-"}}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.Set(t.Context(), "a1", req)
			require.Equal(t, api.CodeBadRequest, api.CodeOf(err), "%v", err)
		})
	}
	_, err = w.Set(t.Context(), "unknown", api.SetRequest{MemoryMB: 64})
	require.Equal(t, api.CodeAgentNotFound, api.CodeOf(err))
}

// TestLimitsOfItsOwnAndAsConfigured: what is 0 comes from below, reset makes it 0.
func TestLimitsOfItsOwnAndAsConfigured(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := rapid.Custom(func(t *rapid.T) api.Limits {
			n := func(name string) int { return rapid.IntRange(0, 3).Draw(t, name) }
			return api.Limits{Pids: n("pids"), CPUPercent: n("cpu"), CPUWeight: n("weight"), IOWeight: n("io"), DiskMB: n("disk"), DiskFiles: n("files"), Connections: n("connections")}
		})
		own, below := limits.Draw(t, "own"), limits.Draw(t, "below")
		got := own.Over(below)
		fields := func(l api.Limits) []int {
			return []int{l.Pids, l.CPUPercent, l.CPUWeight, l.IOWeight, l.DiskMB, l.DiskFiles, l.Connections}
		}
		for i, v := range fields(got) {
			want := fields(own)[i]
			if want == 0 {
				want = fields(below)[i]
			}
			require.Equal(t, want, v)
		}
		i := rapid.IntRange(0, 6).Draw(t, "reset")
		own.Reset(api.LimitNames()[i : i+1])
		require.Zero(t, fields(own)[i])
	})
}

func TestEgressIsKeptAndReset(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	ctx := t.Context()
	a, err := w.Add(ctx, api.AddRequest{Name: "a1", BaseType: "custom", AgentSpec: api.AgentSpec{MemoryMB: 64, Egress: []string{"X.org"}}})
	require.NoError(t, err)
	require.Equal(t, []string{"x.org"}, a.Egress)
	res, err := w.Set(ctx, "a1", api.SetRequest{Egress: []string{"*.y.org", "192.0.2.1"}})
	require.NoError(t, err)
	require.Equal(t, []string{"*.y.org", "192.0.2.1"}, res.Agent.Egress)
	require.Equal(t, []string{"*.y.org", "192.0.2.1"}, w.mem.kept[0].Egress)
	res, err = w.Set(ctx, "a1", api.SetRequest{Reset: []string{api.ResetEgress}})
	require.NoError(t, err)
	require.Equal(t, []string{"open"}, res.Agent.Egress, "as configured")
	require.Nil(t, w.mem.kept[0].Egress)
	for _, bad := range []api.SetRequest{{Egress: []string{"*"}}, {Egress: []string{"open", "x.org"}}, {Egress: []string{"x.org"}, Reset: []string{api.ResetEgress}}} {
		_, err = w.Set(ctx, "a1", bad)
		require.Equal(t, api.CodeBadRequest, api.CodeOf(err), "%v", bad)
	}
	_, err = w.Add(ctx, api.AddRequest{Name: "a2", BaseType: "custom", AgentSpec: api.AgentSpec{MemoryMB: 64, Egress: []string{"https://x.org"}}})
	require.Equal(t, api.CodeBadRequest, api.CodeOf(err))
}

// TestAShimOfBeforeHasItsGateOpened by the daemon, and gets no field that it does not know.
func TestAShimOfBeforeHasItsGateOpened(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	var opened [][]string
	w.Gate = func(_ context.Context, a *Agent, entries, _ []string) error {
		require.Equal(t, "a1", a.Name())
		opened = append(opened, entries)
		return nil
	}
	_, err := w.Add(t.Context(), api.AddRequest{Name: "a1", BaseType: "custom", AgentSpec: api.AgentSpec{MemoryMB: 64}})
	require.NoError(t, err)
	a, err := w.lookup("a1")
	require.NoError(t, err)
	req := wire.SettingsRequest{Settings: wire.Settings{Egress: []string{"x.org"}, MemoryBytes: 1 << 30, DiskBytes: 1 << 30, DiskFiles: 1000, Connections: 100}}
	for version, want := range map[int][]string{wire.EgressVersion - 1: nil, wire.EgressVersion: {"x.org"}, wire.DiskVersion: {"x.org"}, wire.FilesVersion: {"x.org"}, wire.ConnectionsVersion: {"x.org"}} {
		require.NoError(t, w.give(t.Context(), w.Shims.Dial("a1"), a, wire.Status{Version: version}, req))
		require.Equal(t, want, w.k.settings.Egress)
		require.Equal(t, version >= wire.DiskVersion, w.k.settings.DiskBytes > 0)
		require.Equal(t, version >= wire.FilesVersion, w.k.settings.DiskFiles > 0)
		require.Equal(t, version >= wire.ConnectionsVersion, w.k.settings.Connections > 0)
	}
	require.Equal(t, [][]string{{"x.org"}}, opened)
}
