package leases

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/lockd"
)

func TestRequestsAreValidated(t *testing.T) {
	for name, c := range map[string]struct {
		req  api.LockRequest
		code api.Code
	}{
		"no path":           {api.LockRequest{}, api.CodeBadRequest},
		"a NUL":             {api.LockRequest{Path: "a\x00"}, api.CodeBadRequest},
		"a long path":       {api.LockRequest{Path: strings.Repeat("a", 4097)}, api.CodeBadRequest},
		"an absolute path":  {api.LockRequest{Path: "/etc/passwd"}, api.CodePathTraversal},
		"the root":          {api.LockRequest{Path: "a/.."}, api.CodePathTraversal},
		"the parent":        {api.LockRequest{Path: "a/../.."}, api.CodePathTraversal},
		"outside":           {api.LockRequest{Path: "../x"}, api.CodePathTraversal},
		"a negative time":   {api.LockRequest{Path: "a", ForSeconds: -1}, api.CodeBadRequest},
		"more than 7 days":  {api.LockRequest{Path: "a", ForSeconds: 7*24*3600 + 1}, api.CodeBadRequest},
		"a negative wait":   {api.LockRequest{Path: "a", WaitMillis: -1}, api.CodeBadRequest},
		"more than 10 min.": {api.LockRequest{Path: "a", WaitMillis: 600_001}, api.CodeBadRequest},
		"a long reason":     {api.LockRequest{Path: "a", Reason: strings.Repeat("a", 1001)}, api.CodeBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Request("ws", "alice", c.req)
			require.Error(t, err)
			require.Equal(t, c.code, api.CodeOf(err))
		})
	}
	lr, err := Request("ws", "alice", api.LockRequest{Path: "a//b/", ForSeconds: 60, WaitMillis: 5, Reason: "why"})
	require.NoError(t, err)
	require.Equal(t, lockd.LockRequest{Workspace: "ws", Holder: "alice", Paths: []string{lockd.FileKey("a/b")}, Mode: lockd.Write,
		Reason: "why", Op: "lock", For: time.Minute, Wait: 5 * time.Millisecond}, lr)
	lr, err = Request("ws", "root", api.LockRequest{Path: "a", Agent: "bob", Read: true, Tree: true})
	require.NoError(t, err)
	require.Equal(t, lockd.LockRequest{Workspace: "ws", Holder: "bob", Trees: []string{lockd.FileKey("a")}, Mode: lockd.Read, Op: "lock"}, lr)
}

func TestEventsOfTheLockTable(t *testing.T) {
	for name, c := range map[string]struct {
		e        lockd.Event
		reported bool
		typ      string
		message  string
	}{
		"the daemon's own": {e: lockd.Event{Kind: lockd.EventBroken, Holder: DaemonHolder + "git:1"}},
		"a conflict":       {e: lockd.Event{Kind: lockd.EventConflict, Holder: "alice"}},
		"a wait": {e: lockd.Event{Kind: lockd.EventWaiting, Holder: "alice", Waiter: "bob", Path: lockd.FileKey("a")},
			reported: true, typ: api.EventLockWaiting, message: "bob waits for a, which alice has locked"},
		"broken": {e: lockd.Event{Kind: lockd.EventBroken, Holder: "alice", By: "root", Note: "stuck", Path: lockd.FileKey("a")},
			reported: true, typ: api.EventLockBroken, message: "root took the lock on a from alice: stuck"},
	} {
		t.Run(name, func(t *testing.T) {
			ev, reported := Event(c.e)
			require.Equal(t, c.reported, reported)
			if reported {
				require.Equal(t, c.typ, ev.Type)
				require.Equal(t, c.message, ev.Message)
			}
		})
	}
}
