package view

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs"
	"polis/fusefs/policy"
)

// BenchmarkChanges makes, opens and removes files as an unprivileged user,
// natively and in a view with twenty rules whose leases are all held, turn and
// turn about. The ratios are of CPU time, of caller and server together: they
// do not mind other work on the machine.
func BenchmarkChanges(b *testing.B) {
	top := benchDir(b)
	native, back, mnt := filepath.Join(top, "native"), filepath.Join(top, "back"), filepath.Join(top, "mnt")
	for _, d := range []string{native, back, mnt} {
		require.NoError(b, os.MkdirAll(d, 0o755))
		require.NoError(b, os.Chmod(d, 0o777))
	}
	rules := policy.Rules{Read: []string{"**"}, Write: []string{"src/**"}}
	for i := range 18 {
		rules.Deny = append(rules.Deny, fmt.Sprintf("closed/%d/**/*.pem", i))
	}
	benchView(b, rules, back, mnt)
	for _, d := range []string{native, back} {
		require.NoError(b, os.Mkdir(d+"/src", 0o755))
		require.NoError(b, os.Chown(d+"/src", nobody, nobody))
	}
	const files = 5000
	steps := []struct {
		name string
		do   func(path string) error
	}{
		{"create", func(p string) error { return openFor(p, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY) }},
		{"write", func(p string) error { return openFor(p, unix.O_WRONLY) }},
		{"rename", func(p string) error { return unix.Rename(p, p+"r") }},
		{"unlink", func(p string) error { return unix.Unlink(p + "r") }},
	}
	ratios := make([][]float64, len(steps))
	us := make([]time.Duration, len(steps))
	for b.Loop() {
		var took [2][]time.Duration
		for i, dir := range []string{native, mnt} {
			for _, s := range steps {
				took[i] = append(took[i], asNobody(b, func() error {
					for n := range files {
						if err := s.do(dir + "/src/" + strconv.Itoa(n)); err != nil {
							return err
						}
					}
					return nil
				}))
			}
		}
		for s := range steps {
			ratios[s] = append(ratios[s], float64(took[1][s])/float64(took[0][s]))
			us[s] += took[1][s] - took[0][s]
		}
	}
	for s := range steps {
		slices.Sort(ratios[s])
		b.ReportMetric(ratios[s][len(ratios[s])/2], steps[s].name+"-x")
		b.ReportMetric(float64(us[s].Microseconds())/float64(len(ratios[s])*files), steps[s].name+"-us")
	}
	b.ReportMetric(0, "ns/op")
}

// benchDir is a directory in memory: a disk's own work would hide what is measured.
func benchDir(b *testing.B) string {
	if os.Geteuid() != 0 {
		b.Skip("needs root")
	}
	top, err := os.MkdirTemp("", "polis-bench-")
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, os.Remove(top)) })
	require.NoError(b, unix.Mount("polis-bench", top, "tmpfs", 0, "mode=777"))
	b.Cleanup(func() { require.NoError(b, unix.Unmount(top, unix.MNT_DETACH)) })
	return top
}

// benchView shows back at mnt with rules; all leases are held.
func benchView(b *testing.B, rules policy.Rules, back, mnt string) {
	g := newGuard(b, rules, func(c *Config) { c.Locker, c.GitFile, c.Log = anyLease{}, false, slog.New(slog.DiscardHandler) })
	root, err := os.Open(back)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, root.Close()) })
	fs, err := fusefs.New(fusefs.Config{Roots: []int{int(root.Fd())}, Guard: g, Mountpoint: mnt, FsName: "polis-test", Log: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	require.NoError(b, fs.Mount(b.Context()))
	b.Cleanup(func() { require.NoError(b, fs.Unmount(context.Background())) })
}

// anyLease is a lock table that has every lease at once.
type anyLease struct{ heldLeases }

func (anyLease) Acquire(context.Context, LockRequest) (fusefs.Ticket, error) { return noTicket{}, nil }

func openFor(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// asNobody runs f on a thread of its own with the user nobody, and returns the CPU time the
// process took meanwhile, and a moment longer: deferred work counts.
func asNobody(b *testing.B, f func() error) time.Duration {
	start := cpu(b)
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, nobody, nobody, nobody); e != 0 {
			done <- e
			return
		}
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); e != 0 {
			done <- e
			return
		}
		done <- f()
	}()
	require.NoError(b, <-done)
	time.Sleep(50 * time.Millisecond)
	return cpu(b) - start
}

func cpu(b *testing.B) time.Duration {
	var u unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
