//go:build seccomp

package sandbox

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestWhatAnAgentLeftInItsHomeIsMovedAside: it neither leads out nor keeps the sandbox from starting, and nothing of it is lost.
func TestWhatAnAgentLeftInItsHomeIsMovedAside(t *testing.T) {
	src := t.TempDir()
	require.NoError(t, os.Chmod(src, 0o755))
	file := filepath.Join(src, "file")
	require.NoError(t, os.WriteFile(file, []byte("content"), 0o644))
	outside := t.TempDir()
	link := func(to string) func(string) error { return func(p string) error { return os.Symlink(to, p) } }
	text := func(p string) error { return os.WriteFile(p, []byte("mine"), 0o600) }
	dir := func(p string) error {
		return errors.Join(os.Mkdir(p, 0o755), os.WriteFile(filepath.Join(p, "k"), []byte("mine"), 0o600))
	}
	project, settings := Mount{Source: src, Dest: "/home/agent/code/project"}, Mount{Source: file, Dest: "/home/agent/settings"}
	long := Mount{Source: src, Dest: "/home/agent/" + strings.Repeat("ä", 127)}
	for name, tc := range map[string]struct {
		at   string
		make func(string) error
		m    Mount
	}{
		"link on the way":            {"code", link(outside), project},
		"link as the place":          {"code/project", link(outside), project},
		"link to itself":             {"code", link("code"), project},
		"link that leads nowhere":    {"code/project", link("/no/where"), project},
		"link to a mount":            {"code/project", link("/usr"), project},
		"file on the way":            {"code", text, project},
		"file as the place":          {"code/project", text, project},
		"FIFO as the place":          {"code/project", func(p string) error { return unix.Mkfifo(p, 0o600) }, project},
		"link as the file":           {"settings", link(file), settings},
		"directory as the file":      {"settings", dir, settings},
		"FIFO as the file":           {"settings", func(p string) error { return unix.Mkfifo(p, 0o600) }, settings},
		"a name of the longest kind": {filepath.Base(long.Dest), link(outside), long},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(t)
			at := filepath.Join(cfg.HomeDir, tc.at)
			require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
			require.NoError(t, tc.make(at))
			before, err := os.Lstat(at)
			require.NoError(t, err)
			taken := asideName(filepath.Base(at), 0)
			require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(at), taken), []byte("older"), 0o600))
			cfg.Mounts = []Mount{tc.m}
			read := tc.m.Dest
			if tc.m.Source == src {
				cfg.Workdir, read = tc.m.Dest, "file"
			}
			s := create(t, cfg)
			require.Equal(t, "content", sh(t, s, "cat "+read))
			after, err := os.Lstat(filepath.Join(filepath.Dir(at), asideName(filepath.Base(at), 1)))
			require.NoError(t, err)
			require.True(t, os.SameFile(before, after), "what was in the way is kept")
			older, err := os.ReadFile(filepath.Join(filepath.Dir(at), taken))
			require.NoError(t, err)
			require.Equal(t, "older", string(older))
			entries, err := os.ReadDir(outside)
			require.NoError(t, err)
			require.Empty(t, entries)
		})
	}
}

func TestModesOfItsHomeDoNotKeepASandboxFromStarting(t *testing.T) {
	src := t.TempDir()
	require.NoError(t, os.Chmod(src, 0o755))
	cfg := testConfig(t)
	code := filepath.Join(cfg.HomeDir, "code")
	require.NoError(t, os.Mkdir(code, 0o755))
	require.NoError(t, os.Chown(code, testUID, testGID))
	for _, d := range []string{code, cfg.HomeDir} {
		require.NoError(t, os.Chmod(d, os.ModeSticky))
	}
	cfg.Mounts = []Mount{{Source: src, Dest: "/home/agent/code/project"}}
	cfg.Workdir = cfg.Mounts[0].Dest
	s := create(t, cfg)
	require.Equal(t, "/home/agent/code/project", sh(t, s, "pwd"))
	require.Equal(t, "1100 1100", sh(t, s, "stat -c %a ~ ~/code | xargs"), "the rest of a mode stays")
}

func TestNamesForWhatIsInTheWayAreNotExhausted(t *testing.T) {
	p := point{Config: &Config{Log: slog.New(slog.DiscardHandler)}}
	dir := t.TempDir()
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(at)
	for i := range 40 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte(fmt.Sprint(i)), 0o600))
		require.NoError(t, p.moveAside(at, "a"))
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 40)
}
