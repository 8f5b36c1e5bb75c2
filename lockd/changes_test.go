package lockd

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Grants and ends of leases are reported, those of the server and of the client; what changes often is one change, and a
// holder that changes too much displaces nothing of another.
func TestChangesOfLeases(t *testing.T) {
	var mu sync.Mutex
	all := map[string]Change{}
	missed := map[string]int{}
	path := socket(t)
	s := serve(t, path, lends, func(s *Server) {
		s.OnChanges = func(c Changes) {
			mu.Lock()
			defer mu.Unlock()
			missed[c.Holder] += c.Missed
			for _, l := range c.List {
				all[c.Holder+" "+l.Path] = l
			}
		}
	})
	is := func(key string, granted, held bool) {
		t.Helper()
		require.Eventually(t, func() bool {
			mu.Lock()
			defer mu.Unlock()
			l, ok := all[key]
			return ok && l.Granted == granted && l.Held == held
		}, 30*time.Second, 5*time.Millisecond, key)
	}
	one := join(t, path, "one")
	for i := range 3 { // the first by the server, the others by the client itself
		acquire(t, one, FileKey(fmt.Sprint("d/f", i))).Done()
	}
	is("one d/f0", true, true)
	is("one d/f2", true, true)
	one.ReleaseIdle(func(string) bool { return true })
	is("one d/f0", false, false)
	is("one d/f2", false, false)
	_, err := s.Lock(t.Context(), LockRequest{Workspace: ws, Holder: "one", Paths: []string{FileKey("x")}, Mode: Write, For: time.Minute})
	require.NoError(t, err)
	is("one x", true, true)
	mu.Lock()
	require.True(t, all["one x"].Explicit)
	mu.Unlock()

	s.mu.Lock()
	for i := range 10_000 {
		s.noteChange(Lease{Workspace: ws, Holder: "flood", Path: fmt.Sprint(i, strings.Repeat("a", 100))}, true)
	}
	for range 10_000 {
		s.noteChange(Lease{Workspace: ws, Holder: "two", Path: "same"}, true)
		s.noteChange(Lease{Workspace: ws, Holder: "two", Path: "same"}, false)
	}
	require.LessOrEqual(t, s.changes[holderOf{ws, "flood"}].bytes, maxChangeBytes)
	require.Len(t, s.changes[holderOf{ws, "two"}].List, 1)
	s.wakeChanges()
	s.mu.Unlock()
	is("two same", true, false)
	require.Eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return missed["flood"] > 7000 }, 30*time.Second, 5*time.Millisecond)
	require.Zero(t, missed["two"])
	require.Zero(t, missed["one"])
}
