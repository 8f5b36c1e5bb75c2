package git

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/host/cage"
	"polis/daemon/host/walk"
	"polis/internal/need"
)

// twoUsers makes a workspace with a worktree in a directory of uid 4321, and one in a private directory of uid 4322.
// exchange exchanges the first one for a link to the second one as fast as possible, until the test ends.
func twoUsers(t *testing.T) (mine, theirs string, exchange func()) {
	need.Root(t)
	dir := t.TempDir()
	for p := dir; len(p) > len(os.TempDir()); p = filepath.Dir(p) {
		require.NoError(t, os.Chmod(p, 0o755))
	}
	for who, uid := range map[string]int{"ann": 4321, "bob": 4322} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, who), 0o755))
		require.NoError(t, os.Chown(filepath.Join(dir, who), uid, uid))
		tree := filepath.Join(dir, who, "ws/.polis/worktrees/alice")
		require.NoError(t, os.MkdirAll(tree, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(tree, "who"), []byte(who), 0o644))
		require.NoError(t, os.Chown(tree, uid, uid))
	}
	require.NoError(t, os.Chmod(filepath.Join(dir, "bob"), 0o700))
	ws, link := filepath.Join(dir, "ann/ws"), filepath.Join(dir, "ann/link")
	require.NoError(t, os.Symlink(filepath.Join(dir, "bob/ws"), link))
	require.NoError(t, os.Lchown(link, 4321, 4321))
	return filepath.Join(ws, ".polis/worktrees"), filepath.Join(dir, "bob/ws/.polis/worktrees"), func() {
		done, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-done:
					return
				default:
					_ = unix.Renameat2(unix.AT_FDCWD, ws, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
				}
			}
		}()
		t.Cleanup(func() { close(done); <-stopped })
	}
}

// shows calls f in the mount namespace of u and returns what it reads there, as the user with fsuid.
func shows(t *testing.T, u *Under, uid uint32, read func() (string, error)) (string, error) {
	enter, done, err := u.prepare(t.Context(), uid)
	if err != nil {
		return "", err
	}
	defer done()
	type result struct {
		text string
		err  error
	}
	got := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		if err := enter(); err != nil {
			got <- result{err: err}
			return
		}
		_ = unix.Setfsgid(int(uid))
		_ = unix.Setfsuid(int(uid))
		text, err := read()
		got <- result{text, err}
	}()
	r := <-got
	return r.text, r.err
}

// TestAWorkspaceThatIsExchangedShowsNothingOfOthers: a user in whose directory a workspace lies exchanges it for a link to
// that of another user, whose files this user could not reach.
func TestAWorkspaceThatIsExchangedShowsNothingOfOthers(t *testing.T) {
	mine, theirs, exchange := twoUsers(t)
	read := func() (string, error) { b, err := os.ReadFile(filepath.Join(mine, "alice/who")); return string(b), err }
	text, err := shows(t, &Under{Parent: mine, Name: "alice"}, 4321, read)
	require.NoError(t, err)
	require.Equal(t, "ann", text)
	root, err := os.Open(filepath.Join(mine, "alice"))
	require.NoError(t, err)
	defer root.Close()
	exchange()
	seen, refused := 0, 0
	for i := range 2000 {
		u := &Under{Parent: mine, Name: "alice"}
		if i%2 == 0 {
			u.Root, u.Name = root, "other"
		}
		text, err := shows(t, u, 4321, func() (string, error) {
			b, err := os.ReadFile(filepath.Join(mine, u.Name, "who"))
			return string(b), err
		})
		if err != nil {
			refused++
			continue
		}
		require.Equal(t, "ann", text)
		seen++
	}
	require.Positive(t, refused, "%d seen", seen)
	require.NoDirExists(t, filepath.Join(theirs, "other"), "nothing is made there")
}

// TestAWorkspaceOfAnotherIsRefused: it is exchanged once.
func TestAWorkspaceOfAnotherIsRefused(t *testing.T) {
	mine, _, _ := twoUsers(t)
	ws := filepath.Dir(filepath.Dir(mine))
	require.NoError(t, unix.Renameat2(unix.AT_FDCWD, ws, unix.AT_FDCWD, filepath.Join(filepath.Dir(ws), "link"), unix.RENAME_EXCHANGE))
	_, err := shows(t, &Under{Parent: mine, Name: "alice"}, 4321, func() (string, error) { return "", nil })
	require.ErrorIs(t, err, walk.ErrForeign)
	for _, name := range []string{"", "..", "a/b", "/a"} {
		_, err := shows(t, &Under{Parent: mine, Name: name}, 4321, func() (string, error) { return "", nil })
		require.Error(t, err, name)
	}
}

// TestACagedProgramSeesNothingOfOthers: what it may write is mounted on itself, noexec, while a user exchanges what
// is on the way. The program has the rights of that user, and finds there only what they reach.
func TestACagedProgramSeesNothingOfOthers(t *testing.T) {
	if err := cage.Probe(); err != nil {
		t.Skip(err)
	}
	mine, _, exchange := twoUsers(t)
	bare := filepath.Join(filepath.Dir(mine), "worktrees/alice")
	exchange()
	r := Runner{UID: 4321, GID: 4321}
	for range 100 {
		out, err := r.Run(t.Context(), Cmd{Args: []string{"hash-object", "--no-filters", filepath.Join(bare, "who")}, Dir: "/", Write: []string{bare}, Children: true})
		var exit *ExitError
		if err != nil {
			require.True(t, errors.As(err, &exit), "%v", err)
			continue
		}
		require.Equal(t, "fef2c817ffc50f10bef3d3c463ffea521cac72fc\n", string(out))
	}
}
