package metrics

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the table of docs/metrics.md")

// exported returns the type of every metric that polisd exports, its labels and its help.
func exported(t *testing.T) map[string][3]string {
	t.Helper()
	m := New(fixed(full()))
	m.state.read(t.Context())
	families, err := m.registry.Gather()
	require.NoError(t, err)
	out := map[string][3]string{}
	for _, f := range families {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		out[f.GetName()] = [3]string{strings.ToLower(f.GetType().String()), strings.Join(labels, ", "), f.GetHelp()}
	}
	return out
}

func TestEveryMetricIsDocumented(t *testing.T) {
	const page, head = "../../../docs/metrics.md", "|---|---|---|---|\n"
	b, err := os.ReadFile(page)
	require.NoError(t, err)
	before, _, found := strings.Cut(string(b), head)
	require.True(t, found)
	want := before + head
	all := exported(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		m := all[name]
		want += fmt.Sprintf("| `%s` | %s | %s | %s |\n", name, m[0], m[1], m[2])
	}
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(b), "go test ./daemon/http/metrics -run TestEveryMetricIsDocumented -update")
}

var (
	metricName = regexp.MustCompile(`\bpolis_[a-z0-9_]+`)
	usedLabels = regexp.MustCompile(`by \(([^)]*)\)|\{\{([a-z]+)\}\}|([a-z]+)=~?"|label_values\([^,]*, ([a-z]+)\)`)
	ofCounter  = regexp.MustCompile(`rate\((polis_[a-z0-9_]+)`)
)

// TestTheDashboardShowsWhatIsExported: each metric and label that a query of the dashboard names is
// exported, a rate is of something that only grows, and every metric is shown.
func TestTheDashboardShowsWhatIsExported(t *testing.T) {
	b, err := os.ReadFile("../../../docs/grafana/polis.json")
	require.NoError(t, err)
	var board struct {
		Templating struct {
			List []struct {
				Name, Type string
				Query      any
			}
		}
		Panels []struct {
			ID      int
			Title   string
			Type    string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	require.NoError(t, json.Unmarshal(b, &board))
	var queries []string
	for _, v := range board.Templating.List {
		if q, ok := v.Query.(map[string]any); ok {
			queries = append(queries, q["query"].(string))
		}
	}
	ids := map[int]bool{}
	for _, p := range board.Panels {
		require.False(t, ids[p.ID], "panel %d is there twice", p.ID)
		ids[p.ID] = true
		require.True(t, p.Type == "row" || len(p.Targets) > 0, p.Title)
		for _, q := range p.Targets {
			queries = append(queries, q.Expr+" "+q.LegendFormat)
		}
	}
	all, shown := exported(t), map[string]bool{}
	for _, q := range queries {
		names := metricName.FindAllString(q, -1)
		require.NotEmpty(t, names, q)
		for _, name := range names {
			base := name
			if _, ok := all[name]; !ok {
				for _, part := range []string{"_bucket", "_sum", "_count"} {
					base = strings.TrimSuffix(base, part)
				}
				require.Equal(t, "histogram", all[base][0], "%s: %s is not exported", q, name)
			}
			shown[base] = true
			labels := append(strings.Split(all[base][1], ", "), "le")
			for _, m := range usedLabels.FindAllStringSubmatch(q, -1) {
				for _, l := range strings.Split(strings.Join(m[1:], ""), ", ") {
					require.Contains(t, labels, l, "%s: %s has no such label", q, base)
				}
			}
		}
		for _, m := range ofCounter.FindAllStringSubmatch(q, -1) {
			require.True(t, strings.HasSuffix(m[1], "_total") || strings.HasSuffix(m[1], "_bucket") || strings.HasSuffix(m[1], "_count"), "%s: a rate of %s", q, m[1])
		}
	}
	for name := range all {
		require.True(t, shown[name], "%s is not in the dashboard", name)
	}
}
