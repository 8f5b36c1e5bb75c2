package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/api/setting"
)

// An agent's programs have their whole grace, however long it is, before a stop or a
// removal gives up.
func TestStopAndRemovalWaitForTheGrace(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	c := w.config()
	c.Limits.StopGrace = setting.Duration(9 * time.Minute)
	w.SetConfig(c)
	for name, end := range map[string]func(string) error{
		"stop":   func(name string) error { _, err := w.Stop(t.Context(), name); return err },
		"remove": func(name string) error { _, err := w.Remove(t.Context(), name, true, false); return err },
	} {
		agent := name + "1"
		_, err := w.Add(t.Context(), api.AddRequest{Name: agent, BaseType: "custom"})
		require.NoError(t, err)
		began := time.Now()
		require.NoError(t, end(agent))
		w.k.mu.Lock()
		until := w.k.until
		w.k.mu.Unlock()
		require.GreaterOrEqual(t, until.Sub(began), 9*time.Minute+30*time.Second, name)
	}
}
