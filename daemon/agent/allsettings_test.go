package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/internal/nonzero"
)

// fullShims are shims of agents that have every setting.
type fullShims struct {
	fakeShims
	noted *wire.Settings
}

func (fullShims) Settings(*Agent) wire.Settings { return nonzero.Of[wire.Settings]() }
func (f fullShims) Note(_ *Agent, v wire.Settings) error {
	return f.k.op("note", func() { *f.noted = v })
}

func TestARunningShimGetsEverySetting(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	var noted wire.Settings
	w.Shims = fullShims{fakeShims{thing{w.k, "shim"}}, &noted}
	_, err := w.Add(t.Context(), api.AddRequest{Name: "a1", BaseType: "custom"})
	require.NoError(t, err)
	for what, change := range map[string]func() error{
		"set": func() error {
			_, err := w.Set(t.Context(), "a1", api.SetRequest{MemoryMB: 300})
			return err
		},
		"configuration": func() error { return w.applySettings(t.Context(), w.agent(t), false) },
	} {
		w.k.mu.Lock()
		w.k.settings, noted = wire.Settings{}, wire.Settings{}
		w.k.mu.Unlock()
		require.NoError(t, change(), what)
		w.k.mu.Lock()
		got, now := w.k.settings, noted
		w.k.mu.Unlock()
		require.Empty(t, nonzero.Missing(got), what)
		require.Equal(t, nonzero.Of[wire.Settings](), got, what)
		require.Equal(t, got, now, "%s: what a polisd that lost its state reads", what)
	}
}
