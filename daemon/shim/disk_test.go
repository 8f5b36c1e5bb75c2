package shim

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"polis/daemon/store/events"
	"polis/fusefs"
	"polis/fusefs/fdtree"
)

func newDisk(t require.TestingT, dir string, b bounds) *Shim {
	s := &Shim{events: events.New(1)}
	s.disk.begin(b)
	root, err := os.Open(dir)
	require.NoError(t, err)
	s.disk.roots = []*os.File{root}
	return s
}

// What was counted and what was measured are together what there is, in
// whatever order files are made, removed and measured, through the view or not.
func TestFilesAreWhatWasMeasuredAndWhatWasCountedSince(t *testing.T) {
	top := t.TempDir()
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		dir := filepath.Join(top, strconv.Itoa(run))
		require.NoError(rt, os.Mkdir(dir, 0o755))
		s := newDisk(rt, dir, bounds{files: 100})
		defer s.disk.roots[0].Close()
		there := map[string]bool{}
		seen := true // what was done beside the view is known
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			name := filepath.Join(dir, strconv.Itoa(rapid.IntRange(0, 9).Draw(rt, "name")))
			view := rapid.Bool().Draw(rt, "view")
			step := func(n int) {
				if view {
					s.disk.count(n)
				} else {
					seen = false
				}
			}
			switch rapid.SampledFrom([]string{"make", "remove", "measure"}).Draw(rt, "op") {
			case "make":
				if !there[name] {
					require.NoError(rt, os.WriteFile(name, nil, 0o644))
					there[name] = true
					step(1)
				}
			case "remove":
				if there[name] {
					require.NoError(rt, os.Remove(name))
					delete(there, name)
					step(-1)
				}
			default:
				require.NoError(rt, s.measureDisk(context.Background()))
				seen = true
			}
			if seen && s.disk.found.Load() != 0 {
				require.Equal(rt, int64(len(there)+1), s.disk.files(), "with the directory itself")
			}
		}
	})
}

// Files that are made while it continues are not lost to a measure, wherever it is.
func TestAMeasureAmongChangesFindsNotTooLittle(t *testing.T) {
	dir := t.TempDir()
	s := newDisk(t, dir, bounds{files: 1 << 20})
	defer s.disk.roots[0].Close()
	for i := range 40 {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, strconv.Itoa(i)), 0o755))
	}
	const programs = 4
	for round := range 20 {
		// Where files are removed as well, one may go where the measure has not come
		// to yet and another come where it has been; so only the next is right.
		removes := round%2 == 1
		var wg sync.WaitGroup
		stop := make(chan struct{})
		for w := range programs {
			wg.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					name := filepath.Join(dir, strconv.Itoa(i*7%40), fmt.Sprintf("%d-%d", w, i/40))
					if removes && os.Remove(name) == nil {
						s.disk.count(-1)
					} else if f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL, 0o644); err == nil {
						_ = f.Close()
						s.disk.count(1)
					}
				}
			})
		}
		require.NoError(t, s.measureDisk(t.Context()))
		close(stop)
		wg.Wait()
		_, files, err := s.disk.measure(t.Context())
		require.NoError(t, err)
		if !removes {
			// Each may have made one that was not counted when the measurement ended.
			require.GreaterOrEqual(t, s.disk.files()+programs, files, "round %d", round)
		}
		require.NoError(t, s.measureDisk(t.Context()))
		require.Equal(t, files, s.disk.files(), "round %d, at rest", round)
	}
}

func TestABoundOfFilesStopsNothingButNewFiles(t *testing.T) {
	b := bounds{bytes: 100, files: 10}
	for _, tc := range []struct {
		op           fusefs.Op
		bytes, files int64
		want         string
	}{
		{fusefs.OpCreate, 99, 9, ""},
		{fusefs.OpCreate, 99, 10, limitFiles},
		{fusefs.OpCreate, 100, 10, limitDisk},
		{fusefs.OpMkdir, 0, 11, limitFiles},
		{fusefs.OpSymlink, 0, 11, limitFiles},
		{fusefs.OpMknod, 0, 11, limitFiles},
		{fusefs.OpTmpfile, 0, 11, limitFiles},
		{fusefs.OpLink, 0, 11, ""},
		{fusefs.OpOpenWrite, 0, 11, ""},
		{fusefs.OpSetxattr, 0, 11, ""},
		{fusefs.OpOpenWrite, 100, 0, limitDisk},
	} {
		require.Equal(t, tc.want, b.reached(tc.op, tc.bytes, tc.files), "%s %d %d", tc.op, tc.bytes, tc.files)
	}
	require.Empty(t, bounds{}.reached(fusefs.OpCreate, 1<<40, 1<<40))
	require.Equal(t, bounds{}, bounds{}.forGit())
	require.Equal(t, bounds{bytes: 20 << 20, files: 1600 + 100}, bounds{bytes: 16 << 20, files: 1600}.forGit())
}

// Who was refused for what was counted waits for the next measure half a second,
// not half a minute, and a measure of many files still has its pause.
func TestWhatWasRefusedIsMeasuredSoon(t *testing.T) {
	for name, tc := range map[string]struct {
		least, want time.Duration
		do          func(*disk)
	}{
		"nothing":             {time.Second, diskRest, func(*disk) {}},
		"refused":             {0, doubtLook, (*disk).doubted},
		"refused, many files": {5 * time.Second, 5 * time.Second, (*disk).doubted},
		"a new limit":         {5 * time.Second, 0, func(d *disk) { d.setLimit(bounds{files: 7}) }},
		"the same limit":      {5 * time.Second, diskRest, func(d *disk) { d.setLimit(bounds{files: 9}) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d disk
				d.begin(bounds{files: 9})
				began := time.Now()
				tc.do(&d)
				require.True(t, d.sleep(t.Context(), diskRest, tc.least))
				require.Equal(t, tc.want, time.Since(began))
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				require.False(t, d.sleep(ctx, diskRest, 0))
			})
		})
	}
}

// What a name is made of does not switch the limit off, and neither does a tree
// that is deeper than PATH_MAX.
func TestTheDiskIsMeasuredWhateverTheNames(t *testing.T) {
	dir := t.TempDir()
	s := newDisk(t, dir, bounds{bytes: 64 << 10})
	defer s.disk.roots[0].Close()
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Close(at)) }()
	const levels = 50
	for i := range levels {
		name := strings.Repeat("n", 100) + "\xff"
		require.NoError(t, unix.Mkdirat(at, name, 0o700), "level %d", i)
		next, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Close(at))
		at = next
	}
	fd, err := unix.Openat(at, "big\xfe", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	require.NoError(t, err)
	require.NoError(t, unix.Fallocate(fd, 0, 0, 1<<20))
	require.NoError(t, unix.Close(fd))
	require.NoError(t, s.measureDisk(t.Context()))
	require.GreaterOrEqual(t, s.disk.used.Load(), int64(1<<20))
	require.EqualValues(t, levels+2, s.disk.files())
	require.Contains(t, s.quota(fusefs.OpOpenWrite), "disk_mb")
	require.NoError(t, fdtree.RemoveAll(t.Context(), filepath.Join(dir, strings.Repeat("n", 100)+"\xff")))
}

// A measure that fails is not the end of the limit: what was known is the least
// there is, and when it continues nothing can be added.
func TestAMeasureThatFailsKeepsTheLimit(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), make([]byte, 64<<10), 0o600))
	s := newDisk(t, dir, bounds{bytes: 1 << 30})
	require.NoError(t, s.measureDisk(t.Context()))
	used := s.disk.used.Load()
	require.NoError(t, s.disk.roots[0].Close())
	for range maxFailed {
		require.Empty(t, s.quota(fusefs.OpCreate))
		require.Error(t, s.measureDisk(t.Context()))
		require.Equal(t, used, s.disk.used.Load())
	}
	require.Contains(t, s.quota(fusefs.OpCreate), "cannot be measured")
	require.Contains(t, s.gitQuota(fusefs.OpCreate), "cannot be measured")
	again, err := os.Open(dir)
	require.NoError(t, err)
	defer again.Close()
	s.disk.roots = []*os.File{again}
	require.NoError(t, s.measureDisk(t.Context()))
	require.Empty(t, s.quota(fusefs.OpCreate))
}
