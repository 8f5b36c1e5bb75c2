package totals

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/config"
)

func TestOnlyLimitsOfPolisAreLifted(t *testing.T) {
	var want Limits
	var set []Limits
	var fails error
	tt := &Totals{Wanted: func() Limits { return want }, Mark: filepath.Join(t.TempDir(), "total"),
		Set: func(_ context.Context, l Limits) error { set = append(set, l); return fails }}
	take := func() (out []Limits) { out, set = set, nil; return out }

	require.NoError(t, tt.Apply(t.Context()))
	require.NoError(t, tt.Lift(t.Context()))
	require.Empty(t, take(), "an administrator can have set some")
	require.NoFileExists(t, tt.Mark)

	want = Limits{Pids: 100}
	require.NoError(t, tt.Apply(t.Context()))
	require.NoError(t, tt.Apply(t.Context()), "with the next agent")
	require.Equal(t, []Limits{want, want}, take())
	require.FileExists(t, tt.Mark)

	was := want
	want = Limits{}
	require.NoError(t, tt.Apply(t.Context()), "the configuration has none any more")
	require.Equal(t, []Limits{{}}, take())
	require.NoFileExists(t, tt.Mark)

	want = was
	require.NoError(t, tt.Apply(t.Context()))
	require.NoError(t, tt.Lift(t.Context()), "no agent is left")
	require.Equal(t, []Limits{want, {}}, take())
	require.NoFileExists(t, tt.Mark)

	fails = errors.New("EBUSY")
	require.Equal(t, api.CodeCgroupFailed, api.CodeOf(tt.Reload(t.Context())))
	require.Contains(t, tt.Fault(), "EBUSY")
	require.FileExists(t, tt.Mark, "some of it can be set")
	fails = nil
	require.NoError(t, tt.Reload(t.Context()))
	require.Empty(t, tt.Fault())

	require.NoError(t, os.Remove(tt.Mark))
	tt.Mark = filepath.Join(tt.Mark, "x", "y")
	take()
	require.Error(t, tt.Apply(t.Context()))
	require.Empty(t, take(), "limits without a mark would stay")
}

func TestTheLimitsOfAConfiguration(t *testing.T) {
	c := config.Default()
	c.Limits.Total.MemoryMB, c.Limits.Total.Pids, c.Limits.Total.CPU = 3, 4, 5
	require.Equal(t, Limits{MemoryBytes: 3 << 20, Pids: 4, CPUPercent: 5}, Of(c))
}
