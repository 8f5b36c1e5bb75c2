package counters

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
)

var added = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

func some(n int64) Record {
	t := api.Times{Counts: []int64{n, 0}, SumNanos: n}
	return Record{Counters: api.Counters{ReadCount: n, WriteDenied: n}, Times: api.AgentTimes{Bounds: []int64{10}, Reads: t, Writes: t, LeaseWaits: t}}
}

func mustOpen(t *testing.T, dir string, created time.Time) (*File, Record, bool) {
	t.Helper()
	f, last, damaged, err := Open(dir, created)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.f.Close() }) //nolint:errcheck // most tests have closed it
	return f, last, damaged
}

func TestTheNextShimContinuesFromTheLastRecord(t *testing.T) {
	dir := t.TempDir()
	f, last, damaged := mustOpen(t, dir, added)
	require.False(t, damaged)
	require.Zero(t, last.Counters)
	for n := int64(1); n <= 3; n++ {
		require.NoError(t, f.Save(some(n)))
	}
	seq := f.last.Seq
	require.NoError(t, f.Save(some(3)))
	require.Equal(t, seq, f.last.Seq, "nothing has changed")
	// The process is killed: nothing is closed.
	r, ok := Read(dir, added)
	require.True(t, ok)
	require.Equal(t, some(3).Counters, r.Counters)
	_, last, damaged = mustOpen(t, dir, added)
	require.False(t, damaged)
	require.Equal(t, some(3).Counters, last.Counters)
	require.Equal(t, some(3).Times, last.Times)
}

func TestAnotherAgentOfTheNameBeginsWithZero(t *testing.T) {
	dir := t.TempDir()
	f, _, _ := mustOpen(t, dir, added)
	require.NoError(t, f.Save(some(9)))
	require.NoError(t, f.Close())
	_, ok := Read(dir, added.Add(time.Second))
	require.False(t, ok)
	g, last, damaged := mustOpen(t, dir, added.Add(time.Second))
	require.False(t, damaged)
	require.Zero(t, last.Counters)
	require.NoError(t, g.Save(some(1)))
	r, ok := Read(dir, added.Add(time.Second))
	require.True(t, ok, "the new record is newer than the other agent's")
	require.Equal(t, int64(1), r.Counters.ReadCount)
}

func TestATornSlotLeavesTheOther(t *testing.T) {
	for _, tc := range []struct {
		name    string
		tear    func(b []byte) []byte
		want    int64
		damaged bool
	}{
		{"the last slot", func(b []byte) []byte { b[slotSize+20]++; return b }, 2, false},
		{"the slot before", func(b []byte) []byte { b[20]++; return b }, 3, false},
		{"both slots", func(b []byte) []byte { b[20]++; b[slotSize+20]++; return b }, 0, true},
		{"a short file", func(b []byte) []byte { return b[:slotSize+100] }, 2, false},
		{"a file without a slot", func(b []byte) []byte { return b[:100] }, 0, true},
		{"zeros", func(b []byte) []byte { return make([]byte, len(b)) }, 0, true},
		{"an empty file", func([]byte) []byte { return nil }, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			f, _, _ := mustOpen(t, dir, added)
			for n := int64(1); n <= 3; n++ {
				require.NoError(t, f.Save(some(n)))
			}
			require.NoError(t, f.Close())
			path := filepath.Join(dir, Name)
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, tc.tear(b), 0o600))
			g, last, damaged := mustOpen(t, dir, added)
			require.Equal(t, tc.damaged, damaged)
			require.Equal(t, tc.want, last.Counters.ReadCount)
			require.NoError(t, g.Save(some(7)))
			r, ok := Read(dir, added)
			require.True(t, ok)
			require.Equal(t, int64(7), r.Counters.ReadCount)
		})
	}
}

func TestNoLinkAndNoDeviceIsOpened(t *testing.T) {
	dir, aim := t.TempDir(), filepath.Join(t.TempDir(), "aim")
	require.NoError(t, os.WriteFile(aim, []byte("x"), 0o600))
	require.NoError(t, os.Symlink(aim, filepath.Join(dir, Name)))
	_, _, _, err := Open(dir, added)
	require.Error(t, err)
	_, ok := Read(dir, added)
	require.False(t, ok)
	require.NoError(t, os.Remove(filepath.Join(dir, Name)))
	require.NoError(t, os.Mkdir(filepath.Join(dir, Name), 0o700))
	_, _, _, err = Open(dir, added)
	require.Error(t, err)
}

func TestARecordThatDoesNotFitIsAnError(t *testing.T) {
	r := some(1)
	r.Times.Bounds = make([]int64, slotSize)
	f, _, _ := mustOpen(t, t.TempDir(), added)
	require.ErrorIs(t, f.Save(r), errTooLarge)
}

// Feature: multi-agent-workspaces, Property Q1: Monotonic Metrics. However often the shim is killed and
// whichever slot a loss of power tears, no counter is less than one that was durable.
func TestCountersNeverDecrease(t *testing.T) {
	dirs := t.TempDir()
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		dir := filepath.Join(dirs, time.Duration(runs).String())
		require.NoError(t, os.Mkdir(dir, 0o700))
		durable := int64(0)
		for range rapid.IntRange(1, 5).Draw(t, "shims") {
			f, last, _, err := Open(dir, added)
			require.NoError(t, err)
			require.GreaterOrEqual(t, last.Counters.ReadCount, durable)
			n := last.Counters.ReadCount
			for range rapid.IntRange(0, 5).Draw(t, "saves") {
				n += rapid.Int64Range(0, 3).Draw(t, "more")
				require.NoError(t, f.Save(some(n)))
			}
			require.NoError(t, f.f.Close())
			if f.last.Seq > 1 && rapid.Bool().Draw(t, "power is lost while the last slot is written") {
				file, err := os.OpenFile(filepath.Join(dir, Name), os.O_RDWR, 0)
				require.NoError(t, err)
				at := int64(f.last.Seq%2)*slotSize + rapid.Int64Range(0, slotSize-1).Draw(t, "at")
				_, err = file.WriteAt([]byte{0}, at)
				require.NoError(t, err)
				require.NoError(t, file.Close())
				durable = 0
				if r, err := os.ReadFile(filepath.Join(dir, Name)); err == nil {
					if r, err := choose(r); err == nil {
						durable = r.Counters.ReadCount
						require.GreaterOrEqual(t, r.Seq+1, f.last.Seq, "at most the last record is lost")
					}
				}
			} else {
				durable = n
			}
		}
	})
}

func FuzzSlots(f *testing.F) {
	slot, err := encode(some(4))
	require.NoError(f, err)
	f.Add(slot)
	f.Add(append(bytes.Clone(slot), slot...))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := choose(b)
		if err != nil {
			return
		}
		require.True(t, r.valid())
		again, err := encode(r)
		require.NoError(t, err)
		back, err := decode(again)
		require.NoError(t, err)
		require.Equal(t, r.Counters, back.Counters)
	})
}
