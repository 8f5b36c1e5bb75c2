package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestComparisonMeasuresEveryColumn runs the benchmark with little work. It requires that there are
// figures, not their size.
func TestComparisonMeasuresEveryColumn(t *testing.T) {
	needRoot(t)
	for _, p := range []string{"bindfs", "rg"} {
		needProgram(t, p)
	}
	programs := bin(t)
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", dir+"/", "./bench", "./bench/nullfs", "github.com/hanwen/go-fuse/v2/example/loopback")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))

	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "bench"), "--bin", programs, "--json")
	cmd.Env = append(os.Environ(), "BENCH_QUICK=1", "BENCH_ROUNDS=1", "BENCH_ONLY=stat of known files,git add and commit")
	r := capture(cmd, "")
	require.Zero(t, r.code, r.String())
	var report struct {
		Columns []string
		Rows    []struct {
			Name   string
			Rounds []map[string]struct {
				Wall   int64 `json:"wall_ns"`
				Client int64 `json:"client_cpu_ns"`
				Server int64 `json:"server_cpu_ns"`
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &report), r.String())
	require.ElementsMatch(t, []string{"native", "polis", "floor", "bindfs", "loopback"}, report.Columns)
	require.Len(t, report.Rows, 2)
	for _, row := range report.Rows {
		require.Len(t, row.Rounds, 1)
		for _, c := range report.Columns {
			f, ok := row.Rounds[0][c]
			if c == "floor" && row.Name != "stat of known files" {
				require.False(t, ok, "it is for reading only")
				continue
			}
			require.True(t, ok, "%s: %s", row.Name, c)
			require.Positive(t, f.Wall, "%s: %s", row.Name, c)
			require.Positive(t, f.Client, "%s: %s", row.Name, c)
			if c == "native" {
				require.Zero(t, f.Server, row.Name)
			}
		}
	}
	// A write needs a server. Reading cached names need not.
	for _, c := range []string{"polis", "bindfs", "loopback"} {
		require.Positive(t, report.Rows[1].Rounds[0][c].Server, c)
	}
}
