package shim

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs"
	"polis/fusefs/policy"
	"polis/fusefs/view"
	"polis/lockd"
)

// BenchmarkOpenWithALease opens files of a view for writing, in turns: one that
// takes a lease, one that has its lease already, and one that needs none. What
// a lease adds is the difference of the medians (goal: below 60 us for a new one).
func BenchmarkOpenWithALease(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root")
	}
	dir := b.TempDir()
	tree, mnt := filepath.Join(dir, "tree"), filepath.Join(dir, "mnt")
	const files = 4000
	for _, d := range []string{"leased", "free"} {
		require.NoError(b, os.MkdirAll(filepath.Join(tree, d), 0o755))
		for i := range files {
			require.NoError(b, os.WriteFile(filepath.Join(tree, d, fmt.Sprint(i)), nil, 0o644))
		}
	}
	require.NoError(b, os.Mkdir(mnt, 0o755))
	srv := lockd.New()
	srv.Path, srv.Grace = filepath.Join(dir, "s"), 0
	require.NoError(b, srv.Open())
	defer srv.Close()
	c := lockd.NewClient(srv.Path, "/ws", "ann")
	c.HoldFor = func(string) lockd.Hold { return lockd.HoldMerge }
	require.NoError(b, c.Open())
	defer c.Close()
	root, err := openDir(tree)
	require.NoError(b, err)
	defer root.Close()
	set, err := policy.Compile(policy.Rules{Read: []string{"**"}, Write: []string{"**"}})
	require.NoError(b, err)
	log := slog.New(slog.DiscardHandler)
	guard, err := view.New(view.Config{Agent: "ann", Locker: locker{c: c, waited: &atomic.Int64{}}, Exempt: []string{"free/**"}, RootFD: int(root.Fd()), Log: log}, set)
	require.NoError(b, err)
	defer guard.Close()
	fs, err := fusefs.New(fusefs.Config{Roots: []int{int(root.Fd())}, Guard: guard, Mountpoint: mnt, FsName: "polis:bench", Log: log})
	require.NoError(b, err)
	require.NoError(b, fs.Mount(b.Context()))
	defer func() { require.NoError(b, fs.Unmount(b.Context())) }()

	open := func(dir string, i int) time.Duration {
		began := time.Now()
		fd, err := unix.Open(filepath.Join(mnt, dir, fmt.Sprint(i)), unix.O_WRONLY|unix.O_CLOEXEC, 0)
		took := time.Since(began)
		if err != nil {
			b.Fatal(err)
		}
		if err := unix.Close(fd); err != nil {
			b.Fatal(err)
		}
		return took
	}
	var first, held, free, again []time.Duration
	i := 0
	for b.Loop() {
		if i == files {
			c.ReleaseAll()
			i = 0
		}
		for _, d := range []string{"leased", "free"} { // names and inodes are known to the kernel
			if _, err := os.Lstat(filepath.Join(mnt, d, fmt.Sprint(i))); err != nil {
				b.Fatal(err)
			}
		}
		if i%2 == 0 {
			first, free = append(first, open("leased", i)), append(free, open("free", i))
			held, again = append(held, open("leased", i)), append(again, open("free", i))
		} else {
			free, first = append(free, open("free", i)), append(first, open("leased", i))
			again, held = append(again, open("free", i)), append(held, open("leased", i))
		}
		i++
	}
	median := func(ds []time.Duration) float64 {
		slices.Sort(ds)
		return float64(ds[len(ds)/2].Nanoseconds())
	}
	none := median(free)
	b.ReportMetric(none, "ns/open-without")
	b.ReportMetric(median(first)-none, "ns/new-lease-adds")
	b.ReportMetric(median(held)-median(again), "ns/held-lease-adds")
}
