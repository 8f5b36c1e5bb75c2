package leases

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/lockd"
)

func TestWhichLocksOutliveTheDaemon(t *testing.T) {
	require.True(t, Keeps(lockd.Lease{Holder: "alice"}))
	require.True(t, Keeps(lockd.Lease{Holder: "user:root"}))
	require.False(t, Keeps(lockd.Lease{Holder: DaemonHolder + "git:1"}))
	holders := func(ls []lockd.Lease) (out []string) {
		for _, l := range ls {
			out = append(out, l.Holder)
		}
		return out
	}
	require.Equal(t, []string{"user:root", "up", "unmerged"}, holders(Surviving([]lockd.Lease{
		{Holder: "user:root"}, {Holder: "up"}, {Holder: "stopped"}, {Holder: "unmerged", Merge: true}}, []string{"up"})))
	require.Empty(t, Surviving(nil, nil))
}

func TestLocksOfRemovedAgentsAreStray(t *testing.T) {
	known := func(agent string) bool { return agent == "alice" }
	require.Equal(t, []string{"bob"}, Stray([]lockd.Lease{
		{Holder: "alice", Explicit: true, Merge: true}, {Holder: "bob", Explicit: true, Merge: true}, {Holder: "bob", Explicit: true, Merge: true},
		{Holder: "carol", Explicit: true}, {Holder: "dave", Merge: true}}, known))
}

func TestLeasesOfRefsAreNotOfFiles(t *testing.T) {
	file, ref := lockd.Lease{Path: lockd.FileKey("src/a.go")}, lockd.Lease{Path: lockd.RefKey("refs/heads/main")}
	require.Equal(t, []lockd.Lease{file}, OfFiles([]lockd.Lease{ref, file, {Path: lockd.Exclusive}}))
}

// table answers with err and with what was broken.
type table struct {
	err    error
	broken []lockd.Lease
	calls  []string
}

func (t *table) Unlock(workspace, holder, path string) (lockd.Lease, error) {
	t.calls = append(t.calls, "unlock "+workspace+" "+holder+" "+path)
	return lockd.Lease{}, t.err
}

func (t *table) Break(workspace, path, by, reason string) ([]lockd.Lease, error) {
	t.calls = append(t.calls, "break "+workspace+" "+path+" "+by+" "+reason)
	return t.broken, t.err
}

func TestOnlyARequestToBreakBreaksALock(t *testing.T) {
	key := lockd.FileKey("a")
	for name, c := range map[string]struct {
		table table
		req   api.LockRequest
		call  string
		code  api.Code
	}{
		"its own":             {table{}, api.LockRequest{Path: "a"}, "unlock w alice " + key, ""},
		"not held":            {table{err: lockd.ErrNotHeld}, api.LockRequest{Path: "a"}, "unlock w alice " + key, api.CodeNotLocked},
		"a tree":              {table{}, api.LockRequest{Path: "a", Tree: true}, "unlock w alice " + key, ""},
		"another holder's":    {table{broken: make([]lockd.Lease, 1)}, api.LockRequest{Path: "a", Break: true, Reason: "why"}, "break w " + key + " alice why", ""},
		"nothing to break":    {table{}, api.LockRequest{Path: "a", Break: true}, "break w " + key + " alice ", api.CodeNotLocked},
		"not to be found out": {table{err: errors.New("x")}, api.LockRequest{Path: "a", Break: true}, "break w " + key + " alice ", api.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			lr, err := Request("w", "alice", c.req)
			require.NoError(t, err)
			err = Release(&c.table, lr, "alice", c.req)
			require.Equal(t, []string{c.call}, c.table.calls)
			if c.code == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, c.code, api.CodeOf(err))
			require.ErrorContains(t, err, "a: ")
		})
	}
}
