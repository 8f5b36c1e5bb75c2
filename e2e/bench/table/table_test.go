package table

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func at(ms int) Sample {
	return Sample{Figure: Figure{Wall: time.Duration(ms) * time.Millisecond, Client: time.Duration(ms) * time.Millisecond}}
}

func TestRatiosAreTakenWithinARound(t *testing.T) {
	// The machine was ten times slower in the second round, for both columns.
	r := Row{Name: "w", Rounds: []map[string]Sample{
		{Native: at(10), "polis": at(20)}, {Native: at(100), "polis": at(300)}, {Native: at(10), "polis": at(40)},
	}}
	require.InDelta(t, 3, r.Wall("polis"), 1e-9)
	require.InDelta(t, 3, r.CPU("polis"), 1e-9)
	require.InDelta(t, 0.010, r.Seconds(Native), 1e-9)
	require.Zero(t, r.Wall("absent"))
}

func TestServersCount(t *testing.T) {
	s := at(10)
	s.Server = 30 * time.Millisecond
	r := Row{Rounds: []map[string]Sample{{Native: at(10), "polis": s}}}
	require.InDelta(t, 1, r.Wall("polis"), 1e-9)
	require.InDelta(t, 4, r.CPU("polis"), 1e-9)
}

func TestAddedIsPerOperation(t *testing.T) {
	r := Row{Ops: 1000, Kind: Added, Rounds: []map[string]Sample{{Native: at(1), "polis": at(11)}}}
	require.InDelta(t, 10, r.Measured("polis"), 1e-9)
}

func TestGrowthIsBesideNatives(t *testing.T) {
	several := func(together, alone int) Sample {
		s, one := at(together), at(alone)
		s.Single = &one.Figure
		return s
	}
	r := Row{AtOnce: 10, Kind: Growth, Rounds: []map[string]Sample{{Native: several(200, 10), "polis": several(600, 20)}}}
	require.InDelta(t, 2, r.PerCore(Native), 1e-9)
	require.InDelta(t, 3, r.PerCore("polis"), 1e-9)
	require.InDelta(t, 1.5, r.Measured("polis"), 1e-9)
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 3}, 2.5}} {
		require.InDelta(t, c.want, Median(c.in), 1e-9)
	}
}

func TestGoalsReportWhatIsMet(t *testing.T) {
	rep := Report{Subject: "polis", Columns: []string{Native, "polis"}, Rows: []Row{
		{Name: "good", Kind: Ratio, Limit: 2, Rounds: []map[string]Sample{{Native: at(10), "polis": at(20), Floor: at(15)}}},
		{Name: "bad", Kind: Ratio, Limit: 2, Rounds: []map[string]Sample{{Native: at(10), "polis": at(21)}}},
		{Name: "free", Rounds: []map[string]Sample{{Native: at(10), "polis": at(90)}}},
		{Name: "not measured", Kind: Ratio, Limit: 1},
		// One peer takes twice as long here as on the other machine, the other peer eight times.
		{Name: "slow here", Kind: Ratio, Limit: 2, Peers: map[string]float64{"p": 3, "q": 1}, Rounds: []map[string]Sample{{Native: at(10), "polis": at(80), "p": at(60), "q": at(80)}}},
		{Name: "quick here", Kind: Ratio, Limit: 2, Peers: map[string]float64{"p": 12}, Rounds: []map[string]Sample{{Native: at(10), "polis": at(18), "p": at(60)}}},
	}}
	var b strings.Builder
	met, all := rep.Goals(&b)
	require.Equal(t, []int{3, 4}, []int{met, all})
	require.Contains(t, b.String(), "| good | ratio | 2.00 | 2.00 | 1.50 | 2.00 | 2.00 | yes |")
	require.Contains(t, b.String(), "| bad | ratio | 2.00 | 2.00 |  | 2.10 | 2.10 | no |")
	require.Contains(t, b.String(), "| slow here | ratio | 2.00 | 8.00 |  | 8.00 | 8.00 | here |")
	require.Contains(t, b.String(), "| quick here | ratio | 2.00 | 2.00 |  | 1.80 | 1.80 | yes |")
	require.NotContains(t, b.String(), "free")
	b.Reset()
	rep.Markdown(&b)
	require.Contains(t, b.String(), "| free | 10.0 ms | 9.00 (9.00) |")
}
