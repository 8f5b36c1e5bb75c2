package worktree

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // of an index
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
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
			newest, err := w.asOld(fmt.Sprintf("r%da%d", round, i), all)
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
	newest, err := w.asOld("alice", all)
	require.NoError(t, err)
	require.Zero(t, newest)
	now, err = os.Stat(index)
	require.NoError(t, err)
	require.False(t, os.SameFile(was, now), "it was settled when git had ended")
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
