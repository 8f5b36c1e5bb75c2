package fusefs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// latencyCalls is how many calls one measurement is of.
const latencyCalls = 4000

// BenchmarkOperationsBesideACrowd measures what an open for writing and the close cost (p50 and p99,
// in microseconds) while nothing waits and while a thousand opens of the same view wait, for a file
// of the same view and for one of another view in the same process.
func BenchmarkOperationsBesideACrowd(b *testing.B) {
	needFUSE(b)
	for _, over := range []string{"device", "rings"} {
		b.Run(over, func(b *testing.B) {
			runtime.LockOSThread() // the callers end with this thread
			defer runtime.UnlockOSThread()
			var v, other crowdView
			require.NoError(b, v.mount(b.TempDir(), b.TempDir(), over == "rings"))
			defer func() { require.NoError(b, v.fs.Unmount(context.Background())) }()
			require.NoError(b, other.mount(b.TempDir(), b.TempDir(), over == "rings"))
			defer func() { require.NoError(b, other.fs.Unmount(context.Background())) }()
			rows := map[string][2][]time.Duration{}
			for range b.N {
				for crowded := range 2 {
					var callers []*caller
					for range crowdCallers * crowded {
						c, err := v.open(crowdEach)
						require.NoError(b, err)
						callers = append(callers, c)
					}
					require.NoError(b, v.until("all wait", func() bool { return v.fs.Deferred() == len(callers)*crowdEach }))
					for name, path := range map[string]string{"same": v.mnt, "other": other.mnt} {
						row := rows[name]
						row[crowded] = append(row[crowded], measure(b, filepath.Join(path, "free"))...)
						rows[name] = row
					}
					for _, c := range callers {
						_ = c.cmd.Process.Kill() // may not fail: it waits
						_ = c.cmd.Wait()         // killed
					}
					require.NoError(b, v.until("none waits", func() bool { return v.fs.Deferred() == 0 }))
				}
			}
			for name, row := range rows {
				for _, q := range []int{50, 99} {
					idle, crowd := quantile(row[0], q), quantile(row[1], q)
					b.ReportMetric(float64(idle.Nanoseconds())/1000, fmt.Sprintf("%s-idle-p%d-us", name, q))
					b.ReportMetric(float64(crowd)/float64(idle), fmt.Sprintf("%s-crowd-p%d/idle", name, q))
				}
			}
		})
	}
}

func quantile(all []time.Duration, percent int) time.Duration {
	slices.Sort(all)
	return all[(len(all)-1)*percent/100]
}

// measure runs latency in another process.
func measure(b *testing.B, path string) []time.Duration {
	b.Helper()
	c := helper(b, "latency", path)
	c.Dir = "/"
	out, err := c.Output()
	require.NoError(b, err)
	all := make([]time.Duration, 0, latencyCalls)
	for line := range bytes.Lines(out) {
		var d time.Duration
		_, err := fmt.Sscan(string(line), (*int64)(&d))
		require.NoError(b, err)
		all = append(all, d)
	}
	require.Len(b, all, latencyCalls)
	return all
}

// latency opens and closes a file and prints how long each took, in nanoseconds.
func latency(path string) error {
	var out bytes.Buffer
	for range latencyCalls {
		start := time.Now()
		fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err = errors.Join(err, unix.Close(fd)); err != nil {
			return err
		}
		fmt.Fprintln(&out, time.Since(start).Nanoseconds())
	}
	_, err := os.Stdout.Write(out.Bytes())
	return err
}
