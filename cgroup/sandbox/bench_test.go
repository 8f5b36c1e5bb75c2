//go:build seccomp

package sandbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func BenchmarkCreateDestroy(b *testing.B) {
	for _, report := range []bool{true, false} {
		b.Run(fmt.Sprintf("report=%v", report), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				cfg := testConfig(b)
				cfg.ReportDenied = report
				b.StartTimer()
				s, err := Create(context.Background(), cfg)
				require.NoError(b, err)
				b.StopTimer()
				require.NoError(b, s.Destroy(context.Background()))
				b.StartTimer()
			}
		})
	}
}

func BenchmarkDestroy(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		s, err := Create(context.Background(), testConfig(b))
		require.NoError(b, err)
		b.StartTimer()
		require.NoError(b, s.Destroy(context.Background()))
	}
}

func BenchmarkExec(b *testing.B) {
	for _, report := range []bool{true, false} {
		b.Run(fmt.Sprintf("report=%v", report), func(b *testing.B) {
			cfg := testConfig(b)
			cfg.ReportDenied = report
			benchmarkExec(b, cfg)
		})
	}
}

func benchmarkExec(b *testing.B, cfg Config) {
	s := create(b, cfg)
	for b.Loop() {
		p, err := s.Start(Process{Args: []string{"/bin/true"}})
		require.NoError(b, err)
		_, err = p.Wait()
		require.NoError(b, err)
	}
	b.ReportMetric(float64(residentKB(b, s.InitPid())), "init-KB")
}

// BenchmarkExecNative is what BenchmarkExec is to be compared with.
func BenchmarkExecNative(b *testing.B) {
	for b.Loop() {
		require.NoError(b, exec.Command("/bin/true").Run())
	}
}

func residentKB(t testing.TB, pid int) int {
	t.Helper()
	for line := range strings.Lines(hostStatus(t, pid)) {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.Atoi(strings.Fields(v)[0])
			require.NoError(t, err)
			return n
		}
	}
	return 0
}

func TestInitIsSmall(t *testing.T) {
	s := create(t, testConfig(t))
	require.Less(t, residentKB(t, s.InitPid()), 4096)
	b, err := os.ReadFile("/proc/" + strconv.Itoa(s.InitPid()) + "/smaps_rollup")
	require.NoError(t, err)
	t.Logf("%s", b)
}
