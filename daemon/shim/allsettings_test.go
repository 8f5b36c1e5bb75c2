package shim

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/internal/nonzero"
)

// uses are what a shim makes of each setting. A setting that is added gets a line here: how it takes effect when the
// shim starts, and when it is changed.
var uses = map[string]func(t *testing.T, s *Shim, v wire.Settings) any{
	"Role":        func(_ *testing.T, s *Shim, v wire.Settings) any { return contextText(s.Spec, v) },
	"Policy":      func(_ *testing.T, s *Shim, v wire.Settings) any { return s.rules(v) },
	"Record":      func(_ *testing.T, s *Shim, _ wire.Settings) any { return s.recording.Load() },
	"MemoryBytes": limitUse, "Pids": limitUse, "CPUWeight": limitUse, "CPUPercent": limitUse, "IOWeight": limitUse,
	"DiskBytes":   func(_ *testing.T, s *Shim, _ wire.Settings) any { return s.disk.limit.Load() },
	"DiskFiles":   func(_ *testing.T, s *Shim, _ wire.Settings) any { return s.disk.most.Load() },
	"Connections": kernelUse, "HostPorts": kernelUse, "MemoryAsk": kernelUse,
	"Egress": reachUse, "Private": reachUse,
	"Vars":       func(_ *testing.T, s *Shim, _ wire.Settings) any { return *s.vars.Load() },
	"Tools":      func(_ *testing.T, s *Shim, _ wire.Settings) any { return s.toolRules.Load().Tools },
	"Remembered": func(_ *testing.T, s *Shim, _ wire.Settings) any { return s.toolRules.Load().Remembered },
	"Breakers":   func(_ *testing.T, s *Shim, _ wire.Settings) any { return s.breakers.Limits() },
}

func limitUse(_ *testing.T, _ *Shim, v wire.Settings) any { return limitsOf(v) }

func reachUse(t *testing.T, _ *Shim, v wire.Settings) any {
	e, err := reach(v)
	require.NoError(t, err)
	return e
}

// kernelUse is of what only the tests in e2e can see: it is set in the agent's network, or asked when memory is needed.
func kernelUse(_ *testing.T, s *Shim, _ wire.Settings) any { return s.settings() }

// parsed replaces the values that are read as rules.
func parsed(v wire.Settings) wire.Settings {
	v.Egress, v.Private = []string{"registry.example"}, []string{"10.1.0.0/16"}
	v.Tools = api.ToolRules{AutoDeny: []string{"write"}}
	return v
}

// plainShim has no sandbox, view or network.
func plainShim(t *testing.T, v wire.Settings) *Shim {
	s := &Shim{Spec: wire.Spec{Agent: "ann", RunDir: t.TempDir(), Settings: v}, Log: slog.New(slog.DiscardHandler), ctx: t.Context()}
	s.live = newLive(&s.Spec)
	s.vars.Store(&s.Spec.Vars)
	require.NoError(t, s.openApprovals())
	return s
}

// without returns the settings in which one has no value.
func without(v wire.Settings, field string) wire.Settings {
	reflect.ValueOf(&v).Elem().FieldByName(field).SetZero()
	return v
}

func TestAShimStartsWithEverySettingOfItsSpec(t *testing.T) {
	v := parsed(nonzero.Of[wire.Settings]())
	require.Equal(t, v, plainShim(t, v).settings())
}

func TestEverySettingThatIsChangedTakesEffect(t *testing.T) {
	full := parsed(nonzero.Of[wire.Settings]())
	for _, f := range reflect.VisibleFields(reflect.TypeFor[wire.Settings]()) {
		t.Run(f.Name, func(t *testing.T) {
			use := uses[f.Name]
			require.NotNil(t, use, "a setting of which it is not known how it takes effect")
			old := without(full, f.Name)
			s := plainShim(t, old)
			before := use(t, s, old)
			if reflect.DeepEqual(limitsOf(old), limitsOf(full)) && f.Name != "Policy" { // these need the kernel
				b, err := json.Marshal(wire.SettingsRequest{Settings: full})
				require.NoError(t, err)
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/settings", bytes.NewReader(b))
				require.NoError(t, s.handleSettings(httptest.NewRecorder(), r))
				require.Equal(t, full, s.settings())
			}
			require.NotEqual(t, before, use(t, s, full))
		})
	}
}
