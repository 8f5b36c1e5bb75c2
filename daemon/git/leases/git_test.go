package leases

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
	"polis/fusefs/gitdir/level"
	"polis/lockd"
)

// gitLocks is the daemon's side of a table of its own. Waits are a hundredth
// of the real ones.
func gitLocks(t *testing.T) *Git {
	t.Helper()
	s := lockd.New()
	s.Path, s.PeerUID, s.Grace = filepath.Join(t.TempDir(), "lockd.sock"), uint32(os.Getuid()), 0
	require.NoError(t, s.Open())
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return &Git{Table: s, Log: slog.New(slog.DiscardHandler), Workspace: "ws", Bare: t.TempDir(),
		Waits: func(l level.Level) time.Duration { return l.Wait() / 100 }}
}

// Feature: multi-agent-workspaces, Property 11: Git Mutex Granular Locking
func TestPropertyGranularLocking(t *testing.T) {
	locks := gitLocks(t)
	locks.Waits = func(level.Level) time.Duration { return time.Minute } // no request is refused here
	levels := []level.Level{level.None, level.RefRead, level.RefWrite, level.Exclusive}
	rapid.Check(t, func(t *rapid.T) {
		type op struct {
			level level.Level
			ref   int
		}
		ops := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) op {
			return op{rapid.SampledFrom(levels).Draw(t, "level"), rapid.IntRange(0, 2).Draw(t, "ref")}
		}), 1, 12).Draw(t, "ops")
		var readers, writers [3]atomic.Int32
		var all, any atomic.Int32
		var wrong atomic.Pointer[string]
		must := func(ok bool, what string) {
			if !ok {
				wrong.Store(&what)
			}
		}
		var wg sync.WaitGroup
		for _, o := range ops {
			wg.Go(func() {
				release, err := locks.Acquire(context.Background(), o.level, fmt.Sprintf("refs/heads/b%d", o.ref), "test")
				if err != nil {
					s := err.Error()
					wrong.Store(&s)
					return
				}
				defer release()
				switch o.level {
				case level.RefRead:
					any.Add(1)
					readers[o.ref].Add(1)
					must(writers[o.ref].Load() == 0, "a reader beside a writer of its branch")
					must(all.Load() == 0, "a reader beside an exclusive operation")
					readers[o.ref].Add(-1)
					any.Add(-1)
				case level.RefWrite:
					any.Add(1)
					must(writers[o.ref].Add(1) == 1, "two writers of one branch")
					must(readers[o.ref].Load() == 0 && all.Load() == 0, "a writer beside others of its branch")
					writers[o.ref].Add(-1)
					any.Add(-1)
				case level.Exclusive:
					must(all.Add(1) == 1, "two exclusive operations")
					must(any.Load() == 0, "an exclusive operation beside others")
					all.Add(-1)
				}
			})
		}
		wg.Wait()
		if w := wrong.Load(); w != nil {
			t.Fatal(*w)
		}
		require.Empty(t, locks.Table.List(lockd.Filter{}))
	})
}

// Feature: multi-agent-workspaces, Property 11: Git Mutex Granular Locking
func TestPropertyDifferentBranchesAtTheSameTime(t *testing.T) {
	locks := gitLocks(t)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 20).Draw(t, "branches")
		level := rapid.SampledFrom([]level.Level{level.RefRead, level.RefWrite}).Draw(t, "level")
		for i := range n { // all held at once: none waits, or this fails
			release, err := locks.Acquire(context.Background(), level, fmt.Sprintf("refs/heads/%d", i), "test")
			require.NoError(t, err)
			defer release()
		}
	})
}

// Feature: multi-agent-workspaces, Property 12: Git Mutex Timeout
func TestPropertyTimeout(t *testing.T) {
	require.Equal(t, 5*time.Second, level.RefRead.Wait())
	require.Equal(t, 5*time.Second, level.RefWrite.Wait())
	require.Equal(t, 30*time.Second, level.Exclusive.Wait())
	locks := gitLocks(t)
	locks.Waits = func(l level.Level) time.Duration { return l.Wait() / 1000 }
	rapid.Check(t, func(t *rapid.T) {
		held := rapid.SampledFrom([]level.Level{level.RefRead, level.RefWrite, level.Exclusive}).Draw(t, "held")
		want := rapid.SampledFrom([]level.Level{level.None, level.RefRead, level.RefWrite, level.Exclusive}).Draw(t, "wanted")
		other := rapid.Bool().Draw(t, "another branch")
		ref := "refs/heads/b"
		if other {
			ref = "refs/heads/c"
		}
		release, err := locks.Acquire(context.Background(), held, "refs/heads/b", "test")
		require.NoError(t, err)
		defer release()
		start := time.Now()
		got, err := locks.Acquire(context.Background(), want, ref, "test")
		free := want == level.None || held == level.RefRead && want == level.RefRead ||
			other && held != level.Exclusive && want != level.Exclusive
		if free {
			require.NoError(t, err)
			got()
			return
		}
		code := api.CodeBranchLockTimeout
		if want == level.Exclusive {
			code = api.CodeExclusiveLockTimeout
		}
		require.Equal(t, code, api.CodeOf(err))
		require.GreaterOrEqual(t, time.Since(start), locks.Waits(want))
		require.Contains(t, err.Error(), DaemonHolder)
		require.Equal(t, "try again in a moment; polisctl locks shows who has it", api.AsError(err).Hint)
		require.Len(t, locks.Table.List(lockd.Filter{}), 1, "polisctl locks lists it")
	})
	require.Empty(t, locks.Table.List(lockd.Filter{}))
}

// Feature: multi-agent-workspaces, Property 13: Git Mutex Non-Blocking Operations
func TestPropertyNoneIsNoLock(t *testing.T) {
	locks := gitLocks(t)
	rapid.Check(t, func(t *rapid.T) {
		ref := rapid.StringMatching(`refs/heads/[a-z]{1,8}`).Draw(t, "ref")
		release, err := locks.Acquire(context.Background(), level.None, ref, "test")
		require.NoError(t, err)
		require.Empty(t, locks.Table.List(lockd.Filter{}))
		release()
	})
}

func TestStaleLockFileOfARefIsRemovedUnderItsLease(t *testing.T) {
	locks := gitLocks(t)
	file := func(name string, age time.Duration) string {
		path := filepath.Join(locks.Bare, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, 0o644))
		require.NoError(t, os.Chtimes(path, time.Now().Add(-age), time.Now().Add(-age)))
		return path
	}
	stale, fresh, another := file("refs/heads/a.lock", time.Minute), file("refs/heads/b.lock", 0), file("refs/heads/c.lock", time.Minute)
	for _, ref := range []string{"refs/heads/a", "refs/heads/b", "refs/heads/none"} {
		release, err := locks.AcquireRef(t.Context(), ref)
		require.NoError(t, err)
		release()
	}
	require.NoFileExists(t, stale)
	require.FileExists(t, fresh)
	// The owner of the repository can have replaced a directory of it.
	outside := filepath.Join(t.TempDir(), "d.lock")
	require.NoError(t, os.WriteFile(outside, nil, 0o644))
	require.NoError(t, os.Chtimes(outside, time.Now().Add(-time.Minute), time.Now().Add(-time.Minute)))
	require.NoError(t, os.Symlink(filepath.Dir(outside), filepath.Join(locks.Bare, "refs", "tags")))
	done, err := locks.AcquireRef(t.Context(), "refs/tags/d")
	require.NoError(t, err)
	done()
	require.FileExists(t, outside)
	require.FileExists(t, another)
	release, err := locks.AcquireExclusive(t.Context(), "maintenance")
	require.NoError(t, err)
	l := locks.Table.List(lockd.Filter{})
	require.Len(t, l, 1)
	require.Equal(t, lockd.Exclusive, l[0].Path)
	require.Equal(t, "maintenance", l[0].Reason)
	release()
}
