package command

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/internal/need"
)

func sh(script string) Command {
	return Command{Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin", "A=b"}, Timeout: time.Minute, MaxOutput: 100}
}

func TestACommandGetsWhatItIsGivenAndNothingElse(t *testing.T) {
	t.Setenv("SECRET", "of polisd")
	c := sh(`pwd; echo "$A$SECRET"; cat; echo hidden >&2`)
	c.Input = []byte("input")
	out, complete, err := c.Run(t.Context())
	require.NoError(t, err)
	require.True(t, complete)
	require.Equal(t, "/\nb\ninput", string(out))
	c.Errors = true
	out, _, err = c.Run(t.Context())
	require.NoError(t, err)
	require.Contains(t, string(out), "hidden")
}

// TestACommandWithoutAnEnvironmentHasNone and not that of polisd.
func TestACommandWithoutAnEnvironmentHasNone(t *testing.T) {
	t.Setenv("SECRET", "of polisd")
	out, complete, err := Command{Argv: []string{"/usr/bin/env"}, Timeout: time.Minute, MaxOutput: 1 << 10}.Run(t.Context())
	require.NoError(t, err)
	require.True(t, complete)
	require.Empty(t, string(out))
}

func TestACommandRunsAsItsUser(t *testing.T) {
	need.Root(t)
	c := sh("id -u; id -g; id -G")
	c.User = &syscall.Credential{Uid: 65534, Gid: 65534}
	out, _, err := c.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, "65534\n65534\n65534\n", string(out))
}

func TestAnOutputIsKeptUpToItsBound(t *testing.T) {
	for n, complete := range map[int]bool{100: true, 101: false, 1 << 20: false} {
		out, all, err := sh("head -c " + strconv.Itoa(n) + " /dev/zero | tr '\\0' x").Run(t.Context())
		require.NoError(t, err)
		require.Equal(t, complete, all, n)
		require.Equal(t, strings.Repeat("x", 100), string(out))
	}
}

func TestACommandThatFailsSaysHow(t *testing.T) {
	out, complete, err := sh("echo before; exit 3").Run(t.Context())
	require.ErrorContains(t, err, "exit status 3")
	require.True(t, complete)
	require.Equal(t, "before\n", string(out))
	_, _, err = Command{Argv: []string{"/nonexistent"}, Timeout: time.Minute}.Run(t.Context())
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestACommandEndsInTimeWithAllThatItStarted(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	c := sh(`sleep 1000 & echo $! $$ > ` + pids + `; wait`)
	c.Timeout = 300 * time.Millisecond
	_, _, err := c.Run(t.Context())
	require.ErrorContains(t, err, "did not end in 300ms")
	gone(t, pids)

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(context.Canceled)
	_, _, err = sh("sleep 1000").Run(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

// A process that is left running with the output does not delay the end, and does not outlive it.
func TestWhatACommandLeavesRunningEndsWithIt(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	began := time.Now()
	out, _, err := sh(`sleep 1000 & echo $! > ` + pids + `; echo done`).Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, "done\n", string(out))
	require.Less(t, time.Since(began), 30*time.Second)
	gone(t, pids)
}

// gone requires that the processes whose numbers a file has do not run any more.
func gone(t *testing.T, pids string) {
	t.Helper()
	text, err := os.ReadFile(pids)
	require.NoError(t, err)
	for _, pid := range strings.Fields(string(text)) {
		require.Eventually(t, func() bool {
			stat, err := os.ReadFile("/proc/" + pid + "/stat")
			return err != nil || strings.Contains(string(stat), ") Z ")
		}, 10*time.Second, 10*time.Millisecond, pid)
	}
}
