package worktree

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // of an index
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestASettledIndexIsNewerThanItsFiles: the times of files have the steps of the kernel's coarse clock, so an index that
// is written as soon as a second ends can still have a time of that second. Git then reads the files.
func TestASettledIndexIsNewerThanItsFiles(t *testing.T) {
	needRoot(t)
	s := spec(t, project(t))
	up(t, s)
	w := Open(Config{Workspace: s.Workspace, UID: nobody, GID: nobody})
	for round := range 3 {
		var settled sync.WaitGroup
		for i := range 16 {
			name := fmt.Sprintf("r%da%d", round, i)
			_, err := w.Add(t.Context(), name, "", "")
			require.NoError(t, err)
			settled.Go(func() {
				if err := w.Settle(t.Context(), name, View{}, all); err != nil {
					t.Error(err)
				}
			})
		}
		settled.Wait()
		for i := range 16 {
			newest, err := Open(w.cfg).asOld(t.Context(), fmt.Sprintf("r%da%d", round, i), all)
			require.NoError(t, err)
			require.Zero(t, newest, "a file of agent %d is as new as its index", i)
		}
	}
}

// TestAnIndexThatGitWritesIsNotSettled: an agent's git may run, or have died while it wrote the index.
func TestAnIndexThatGitWritesIsNotSettled(t *testing.T) {
	needRoot(t)
	s := spec(t, project(t))
	up(t, s)
	w := Open(Config{Workspace: s.Workspace, UID: nobody, GID: nobody})
	_, err := w.Add(t.Context(), "alice", "", "")
	require.NoError(t, err)
	index, lock := filepath.Join(w.admin("alice"), "index"), filepath.Join(w.admin("alice"), "index.lock")
	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(index, old, old))
	require.NoError(t, os.WriteFile(lock, []byte("mine"), 0o600))
	was, err := os.Stat(index)
	require.NoError(t, err)
	require.NoError(t, w.Settle(t.Context(), "alice", View{}, all))
	now, err := os.Stat(index)
	require.NoError(t, err)
	require.True(t, os.SameFile(was, now))
	text, err := os.ReadFile(lock)
	require.NoError(t, err)
	require.Equal(t, "mine", string(text))
	require.NoError(t, os.Remove(lock))
	require.NoError(t, w.Settle(t.Context(), "alice", View{}, all))
	newest, err := Open(w.cfg).asOld(t.Context(), "alice", all)
	require.NoError(t, err)
	require.Zero(t, newest)
	now, err = os.Stat(index)
	require.NoError(t, err)
	require.False(t, os.SameFile(was, now), "it was settled when git had ended")
}

// TestASettleThatIsEndedLeavesNoLock: git that is killed while it has index.lock leaves it there, and every later git of the
// agent would fail.
func TestASettleThatIsEndedLeavesNoLock(t *testing.T) {
	needRoot(t)
	s := spec(t, project(t))
	up(t, s)
	w := Open(Config{Workspace: s.Workspace, UID: nobody, GID: nobody})
	_, err := w.Add(t.Context(), "alice", "", "")
	require.NoError(t, err)
	index, big := filepath.Join(w.admin("alice"), "index"), filepath.Join(w.tree("alice"), "README")
	old := time.Now().Add(-time.Hour).Truncate(time.Second)
	require.NoError(t, os.Truncate(big, 3<<30)) // git compares it for many seconds
	require.NoError(t, os.Chtimes(big, old, old))
	noteStat(t, index, "README", big)
	require.NoError(t, os.Chtimes(index, old, old))
	was, err := os.Stat(index)
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	readme := func(name string) bool { return name == "README" }
	require.ErrorIs(t, w.Settle(ctx, "alice", View{}, readme), context.DeadlineExceeded)
	require.NoFileExists(t, index+".lock")
	now, err := os.Stat(index)
	require.NoError(t, err)
	require.True(t, os.SameFile(was, now))
	left, err := filepath.Glob(filepath.Join(w.polis(), "save-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestOnlyTheIndexThatWasCopiedIsReplaced: git of the agent may have written another one meanwhile, or write it.
func TestOnlyTheIndexThatWasCopiedIsReplaced(t *testing.T) {
	needRoot(t)
	s := spec(t, project(t))
	up(t, s)
	w := Open(Config{Workspace: s.Workspace, UID: nobody, GID: nobody})
	at := time.Now().Add(-time.Minute)
	for name, c := range map[string]struct {
		meanwhile func(t *testing.T, index string)
		replaced  bool
		lock      string
	}{
		"nothing happens": {func(*testing.T, string) {}, true, ""},
		"it is written": {func(t *testing.T, index string) {
			text, err := os.ReadFile(index)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(index+".lock", text, 0o644))
			require.NoError(t, os.Rename(index+".lock", index))
		}, false, ""},
		"it is removed": {func(t *testing.T, index string) { require.NoError(t, os.Remove(index)) }, false, ""},
		"it is being written": {func(t *testing.T, index string) {
			require.NoError(t, os.WriteFile(index+".lock", []byte("git's"), 0o644))
		}, false, "git's"},
		"only its time changes": {func(t *testing.T, index string) {
			require.NoError(t, os.Chtimes(index, at, at.Add(time.Nanosecond)))
		}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			agent := strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), "'", "")
			_, err := w.Add(t.Context(), agent, "", "")
			require.NoError(t, err)
			index := filepath.Join(w.admin(agent), "index")
			dir, err := os.OpenRoot(t.TempDir())
			require.NoError(t, err)
			defer dir.Close()
			was, err := w.indexCopy(agent, dir)
			require.NoError(t, err)
			c.meanwhile(t, index)
			before, _ := os.Lstat(index)
			require.NoError(t, w.publishIndex(agent, dir, was, at))
			after, _ := os.Lstat(index)
			if c.lock != "" {
				text, err := os.ReadFile(index + ".lock")
				require.NoError(t, err)
				require.Equal(t, c.lock, string(text))
			} else {
				require.NoFileExists(t, index+".lock")
			}
			if !c.replaced {
				require.Equal(t, before, after)
				return
			}
			require.False(t, os.SameFile(before, after))
			require.Equal(t, at.UnixNano(), after.ModTime().UnixNano())
			require.EqualValues(t, nobody, owner(after))
			require.Equal(t, before.Mode(), after.Mode())
			require.Equal(t, before.Size(), after.Size())
		})
	}
}

// TestAnIndexIsReadOnceForManySettles: a large one takes memory each time.
func TestAnIndexIsReadOnceForManySettles(t *testing.T) {
	needRoot(t)
	s := spec(t, project(t))
	up(t, s)
	w := Open(Config{Workspace: s.Workspace, UID: nobody, GID: nobody})
	_, err := w.Add(t.Context(), "alice", "", "")
	require.NoError(t, err)
	index, file := filepath.Join(w.admin("alice"), "index"), filepath.Join(w.tree("alice"), "README")
	old := time.Now().Add(-time.Hour).Truncate(time.Second)
	for round := range 2 { // in the second one, git of the agent has written
		require.NoError(t, os.Chtimes(file, old, old))
		noteStat(t, index, "README", file)
		require.NoError(t, os.Chtimes(index, old, old))
		written, err := os.Stat(index)
		require.NoError(t, err)
		none := func(string) bool { return false }
		require.NoError(t, w.Settle(t.Context(), "alice", View{}, none))

		// No index can be read now, as if others were.
		require.NoError(t, settling.Acquire(t.Context(), 2))
		free := sync.OnceFunc(func() { settling.Release(2) })
		t.Cleanup(free)
		require.NoError(t, w.Settle(t.Context(), "alice", View{}, none))
		require.NoError(t, w.Settle(t.Context(), "alice", View{}, all), "other rules ask about files that are known")
		settled, err := os.Stat(index)
		require.NoError(t, err)
		require.False(t, os.SameFile(written, settled))
		require.NoError(t, w.Settle(t.Context(), "alice", View{}, all))
		now, err := os.Stat(index)
		require.NoError(t, err)
		require.True(t, os.SameFile(settled, now))

		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err = Open(w.cfg).Settle(ctx, "alice", View{}, all)
		cancel()
		free()
		require.ErrorIs(t, err, context.DeadlineExceeded, "an index that is not known, in round %d", round)
		require.NoError(t, Open(w.cfg).Settle(t.Context(), "alice", View{}, all))
	}
	w.racy.mu.Lock()
	require.Len(t, w.racy.of, 1)
	w.racy.mu.Unlock()
	require.NoError(t, w.Remove(t.Context(), "alice"))
	require.Empty(t, w.racy.of)
}

// TestASettledIndexHidesNoChange: a file that changed when its time and its size could not show it is one that git must
// compare, also when the index is newer.
func TestASettledIndexHidesNoChange(t *testing.T) {
	needRoot(t)
	s := spec(t, project(t))
	up(t, s)
	w := Open(Config{Workspace: s.Workspace, UID: nobody, GID: nobody})
	_, err := w.Add(t.Context(), "alice", "", "")
	require.NoError(t, err)
	index, file := filepath.Join(w.admin("alice"), "index"), filepath.Join(w.tree("alice"), "README")
	require.NoError(t, os.WriteFile(file, []byte("HELLO\n"), 0o644))
	old := time.Now().Add(-time.Hour).Truncate(time.Second)
	require.NoError(t, os.Chtimes(file, old, old))
	noteStat(t, index, "README", file)
	require.NoError(t, os.Chtimes(index, old, old))
	require.NoError(t, w.Settle(t.Context(), "alice", View{}, all))
	now, err := os.Stat(index)
	require.NoError(t, err)
	require.Greater(t, now.ModTime().Unix(), old.Unix())
	st, err := w.Status(t.Context(), "alice", "", View{})
	require.NoError(t, err)
	require.Equal(t, []string{"README"}, st.Paths)
}

func all(string) bool { return true }

// noteStat writes an index in which an entry has what lstat(2) says of a file now, as if git had seen it unchanged.
func noteStat(t *testing.T, index, name, file string) {
	t.Helper()
	text, err := os.ReadFile(index)
	require.NoError(t, err)
	var st unix.Stat_t
	require.NoError(t, unix.Lstat(file, &st))
	const stat = 62 // bytes of an entry before its name, with SHA-1
	at := bytes.Index(text, []byte(name+"\x00")) - stat
	require.Positive(t, at)
	for i, n := range []uint32{
		uint32(st.Ctim.Sec), uint32(st.Ctim.Nsec), uint32(st.Mtim.Sec), uint32(st.Mtim.Nsec), uint32(st.Dev), uint32(st.Ino),
		0, st.Uid, st.Gid, uint32(st.Size),
	} {
		if i != 6 { // the mode
			binary.BigEndian.PutUint32(text[at+4*i:], n)
		}
	}
	sum := sha1.Sum(text[:len(text)-sha1.Size])
	require.NoError(t, os.WriteFile(index, append(text[:len(text)-sha1.Size], sum[:]...), 0o644))
}
