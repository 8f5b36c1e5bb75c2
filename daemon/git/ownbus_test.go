package git

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/internal/need"
	"polis/internal/sessionbus"
)

// TestTheBusOfAUserIsNotReadByRoot: the user can mount a file system over /run/user/UID that never answers. Whether the
// user has a session is seen in the directory above it, which is root's.
func TestTheBusOfAUserIsNotReadByRoot(t *testing.T) {
	need.Root(t)
	const uid = 54321
	own := &Own{UID: uid, Home: "/home/x"}
	const address = "DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/54321/bus"
	require.NotContains(t, own.Environ(), address, "without a session")
	sessionbus.Silence(t, sessionbus.Dir(t, uid), uid)
	got := make(chan []string, 1)
	go func() { got <- own.Environ() }()
	select {
	case env := <-got:
		require.Contains(t, env, address)
		require.True(t, slices.Contains(env, "XDG_RUNTIME_DIR=/run/user/54321"))
	case <-time.After(20 * time.Second):
		t.Fatal("root waits for a file system of the user")
	}
}
