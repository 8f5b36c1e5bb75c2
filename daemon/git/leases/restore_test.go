package leases

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/lockd"
)

func TestARestoreTakesNoLeaseOfAnotherAgent(t *testing.T) {
	server := gitLocks(t).Table
	lock := func(agent, path string) {
		_, err := server.Lock(t.Context(), lockd.LockRequest{Workspace: "ws", Holder: agent, Paths: []string{lockd.FileKey(path)}, Reason: "mine"})
		require.NoError(t, err)
	}
	holders := func() (out []string) {
		for _, l := range server.List(lockd.Filter{Workspace: "ws"}) {
			out = append(out, l.Holder+" "+lockd.FilePath(l.Path))
		}
		return out
	}
	log := slog.New(slog.DiscardHandler)
	lock("other", "b")
	lock("mine", "c")
	_, err := Restore(t.Context(), server, "ws", "mine", []string{"a", "b", "c"}, time.Minute, log)
	require.Equal(t, api.CodeFileLocked, api.CodeOf(err))
	require.Equal(t, []string{"other b", "mine c"}, holders(), "all or nothing")

	release, err := Restore(t.Context(), server, "ws", "mine", []string{"a", "c", "d/\xff", "d/e"}, time.Minute, log)
	require.NoError(t, err)
	require.Equal(t, []string{"mine a", "other b", "mine c", "mine d", "mine d/e"}, holders())
	release()
	require.Equal(t, []string{"other b", "mine c"}, holders(), "what the agent had before stays")

	var many []string
	for i := range oneByOne {
		many = append(many, fmt.Sprintf("x/%d", i))
	}
	release, err = Restore(t.Context(), server, "ws", "mine", append(many, "y"), time.Minute, log)
	require.NoError(t, err)
	require.Equal(t, []string{"other b", "mine c", "mine x", "mine y"}, holders())
	release()
	_, err = Restore(t.Context(), server, "ws", "mine", append(many, "\xff"), time.Minute, log)
	require.Equal(t, api.CodeFileLocked, api.CodeOf(err), "the whole repository")
	require.Equal(t, []string{"other b", "mine c"}, holders())
	release, err = Restore(t.Context(), server, "ws", "mine", many, time.Minute, log)
	require.NoError(t, err)
	release()
	release, err = Restore(t.Context(), server, "ws", "mine", nil, time.Minute, log)
	require.NoError(t, err, "nothing to lock")
	release()
}
