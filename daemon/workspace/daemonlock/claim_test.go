package daemonlock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/store/layout"
)

// leftShims are shims by agent, with their mount points; "" if the spec cannot be read.
type leftShims map[string]string

func (l leftShims) Names(string) (names []string, err error) {
	for n := range l {
		names = append(names, n)
	}
	return names, nil
}

func (l leftShims) Mountpoint(spec string) (string, error) {
	at := l[filepath.Base(filepath.Dir(spec))]
	if at == "" {
		return "", errors.New("no spec")
	}
	return at, nil
}

func claimer(run string, shims leftShims) Claimer {
	return Claimer{Me: Owner{PID: os.Getpid(), RunDir: run, Socket: run + "/polisd.sock"}, Shims: shims}
}

func TestADirectoryHasOneDaemon(t *testing.T) {
	dir := t.TempDir()
	run, ctx := layout.Run(filepath.Join(dir, "run")), t.Context()
	root := layout.Workspace(filepath.Join(dir, "ws"))
	for _, d := range []string{string(run), root.Dir()} {
		require.NoError(t, os.MkdirAll(d, 0o755))
	}
	first, second := claimer(string(run), nil), claimer("/run/other", nil)
	for name, c := range map[string]struct {
		claim func(context.Context, Claimer) (*Lock, error)
		code  api.Code
	}{
		"run_dir":        {func(ctx context.Context, c Claimer) (*Lock, error) { return c.RunDir(ctx, run) }, api.CodeUnavailable},
		"workspaces_dir": {func(ctx context.Context, c Claimer) (*Lock, error) { return c.WorkspacesDir(ctx, dir, run) }, api.CodeWorkspaceOwned},
		"workspace":      {func(ctx context.Context, c Claimer) (*Lock, error) { return c.Workspace(ctx, root) }, api.CodeWorkspaceOwned},
	} {
		l, err := c.claim(ctx, first)
		require.NoError(t, err, name)
		_, err = c.claim(ctx, second)
		require.Equal(t, c.code, api.CodeOf(err), name)
		require.NotEmpty(t, api.AsError(err).Hint, name)
		require.NoError(t, l.Give(false))
		l, err = c.claim(ctx, second)
		require.NoError(t, err, name)
		require.NoError(t, l.Give(false))
	}
}

func TestOneDirectoryForBothIsTakenOnce(t *testing.T) {
	dir := t.TempDir()
	c := claimer(dir, nil)
	l, err := c.RunDir(t.Context(), layout.Run(dir))
	require.NoError(t, err)
	both, err := c.WorkspacesDir(t.Context(), dir, layout.Run(dir))
	require.NoError(t, err)
	require.Nil(t, both)
	require.NoError(t, l.Give(false))
}

// The shims of a daemon that has ended still serve the worktrees of its workspaces.
func TestAWorkspaceWithAgentsOfAnotherDaemonIsRefused(t *testing.T) {
	root := layout.Workspace(t.TempDir())
	require.NoError(t, os.MkdirAll(root.Dir(), 0o755))
	before := claimer("/run/before", nil)
	l, err := before.Workspace(t.Context(), root)
	require.NoError(t, err)
	require.NoError(t, l.Give(true))

	for name, c := range map[string]struct {
		claimer Claimer
		refused bool
	}{
		"none is left":           {claimer("/run/now", leftShims{}), false},
		"one of this workspace":  {claimer("/run/now", leftShims{"a": root.Worktree("a")}), true},
		"one of another":         {claimer("/run/now", leftShims{"a": "/srv/other/.polis/worktrees/a"}), false},
		"one that says nothing":  {claimer("/run/now", leftShims{"a": ""}), true},
		"its own, after a crash": {claimer("/run/before", leftShims{"a": root.Worktree("a")}), false},
	} {
		for range 2 { // a second try is no way around it
			l, err := c.claimer.Workspace(t.Context(), root)
			if !c.refused {
				require.NoError(t, err, name)
				require.NoError(t, l.Give(true))
				continue
			}
			require.Equal(t, api.CodeWorkspaceOwned, api.CodeOf(err), name)
			require.Equal(t, []string{"a"}, api.AsError(err).Details["agents"], name)
			o, err := Read(root.Owner())
			require.NoError(t, err)
			require.Equal(t, "/run/before", o.RunDir, name)
		}
		l, err = before.Workspace(t.Context(), root)
		require.NoError(t, err, name)
		require.NoError(t, l.Give(true))
	}
}
