package fusefs

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Programs that watch the tree see what its owner changes in the files that show from the project.
func TestWatchersSeeWhatTheOwnerChangesInSharedFiles(t *testing.T) {
	p := mountProject(t, func(low string) {
		require.NoError(t, os.MkdirAll(filepath.Join(low, "web"), 0o755))
		require.NoError(t, os.MkdirAll(filepath.Join(low, "node_modules/left"), 0o755))
		for _, name := range []string{".env", ".env.saved", ".env.gone", ".env.own", ".env.hidden", ".env.dropped", "web/.env", "node_modules/left/i.js"} {
			write(t, filepath.Join(low, name), "old")
		}
	})
	require.NoError(t, os.Mkdir(p.raw("web"), 0o755))
	p.g.set(func() { p.g.visible = func(path string, _ bool) bool { return path != ".env.hidden" } })
	root, web, file := watch(t, p.mnt), watch(t, p.in("web")), watch(t, p.in(".env"))
	require.Equal(t, "old", content(t, p.in("web/.env")))
	require.Equal(t, "old", content(t, p.in("node_modules/left/i.js")))
	follow := func() {
		p.fs.FollowShared()
		require.Eventually(t, func() bool { return !p.fs.ShowsChanges() }, 30*time.Second, time.Millisecond)
	}
	follow()
	require.Empty(t, root.events(), "the first call shows nothing")

	low := func(name string) string { return filepath.Join(p.low, name) }
	write(t, low(".env"), "written")
	write(t, low(".env.new"), "")
	require.NoError(t, unix.Rename(low(".env.saved"), low(".env.spare")))
	write(t, low(".env.saved"), "another object")
	require.NoError(t, os.Remove(low(".env.gone")))
	write(t, low("web/.env"), "written")
	write(t, low(".env.hidden"), "written")
	write(t, low("other"), "not shared")
	write(t, low("node_modules/left/i.js"), "not followed")
	follow()
	require.Equal(t, []string{"DELETE .env.gone", "MODIFY .env", "CLOSE_WRITE .env",
		"CREATE .env.new", "MODIFY .env.new", "CLOSE_WRITE .env.new", "DELETE .env.saved", "CREATE .env.saved", "MODIFY .env.saved", "CLOSE_WRITE .env.saved",
		"CREATE .env.spare", "MODIFY .env.spare", "CLOSE_WRITE .env.spare"}, root.events())
	require.Equal(t, []string{"MODIFY .env", "CLOSE_WRITE .env"}, web.events())
	require.Equal(t, []string{"MODIFY ", "CLOSE_WRITE "}, file.events())
	require.Equal(t, "written", content(t, p.in(".env")))
	require.Equal(t, "written", content(t, p.in("web/.env")))
	require.Equal(t, "another object", content(t, p.in(".env.saved")))
	require.False(t, p.g.asked(), "the guard is not called")
	follow()
	require.Empty(t, root.events(), "once")

	// What the agent made its own, or removed, is its own to report.
	write(t, p.in(".env.own"), "mine")
	require.NoError(t, os.Remove(p.in(".env.dropped")))
	root.events()
	write(t, low(".env.own"), "theirs")
	write(t, low(".env.dropped"), "theirs")
	follow()
	require.NoError(t, os.Remove(low(".env.own")))
	require.NoError(t, os.Remove(low(".env.dropped")))
	follow()
	require.Empty(t, root.events())
	require.Equal(t, "mine", content(t, p.in(".env.own")))
	_, err := os.Lstat(p.raw(".env"))
	require.ErrorIs(t, err, os.ErrNotExist, "nothing was copied")
}

// Names that have vanished leave room for those that are there, and are forgotten after some time.
func TestVanishedSharedFilesAreNotFollowedForEver(t *testing.T) {
	var log logged
	var low string
	p := mountProject(t, func(dir string) { low = dir }, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	follow := func() {
		p.fs.FollowShared()
		require.Eventually(t, func() bool { return !p.fs.ShowsChanges() }, time.Minute, time.Millisecond)
	}
	count := func() int { return len(p.fs.followed.files) } // a failure does not print them
	named := func(kind string, i int) string { return filepath.Join(low, fmt.Sprintf(".env.%s%d", kind, i)) }
	for i := range maxFollowed {
		write(t, named("old", i), "")
	}
	follow()
	for i := range maxFollowed {
		require.NoError(t, os.Remove(named("old", i)))
	}
	root := watch(t, p.mnt)
	follow()
	root.expect(t, "DELETE .env.old7")
	require.Equal(t, maxFollowed, count())

	write(t, named("old", 7), "back")
	follow()
	root.expect(t, "CREATE .env.old7")
	for i := range maxFollowed - 1 {
		write(t, named("new", i), "")
	}
	follow()
	for _, i := range []int{0, maxFollowed - 2} {
		write(t, named("new", i), "changed")
	}
	root.events()
	follow()
	root.expect(t, "MODIFY .env.new0")
	root.expect(t, fmt.Sprintf("MODIFY .env.new%d", maxFollowed-2))
	require.Equal(t, maxFollowed, count())
	require.NotContains(t, log.String(), "too many")

	write(t, named("one", 2), "")
	follow()
	follow()
	require.Equal(t, 1, strings.Count(log.String(), "too many"), "it is logged once")
	require.Contains(t, log.String(), "others=1")

	for i := range maxFollowed - 1 {
		require.NoError(t, os.Remove(named("new", i)))
	}
	follow()
	root.expect(t, "DELETE .env.new0")
	for range keepVanished + 1 {
		follow()
	}
	require.Equal(t, 2, count(), "with the one there was no room for")
	require.Empty(t, p.fs.followed.gone)
}
