package home

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASectionIsWrittenOnce(t *testing.T) {
	once := withSection([]byte("mine\n"), "/x")
	require.True(t, strings.HasPrefix(string(once), "mine\n\n"+sectionBegin))
	require.Equal(t, string(once), string(withSection(once, "/x")))
	require.Contains(t, string(withSection(once, "/y")), "Read /y first")
	require.Equal(t, 1, strings.Count(string(withSection(nil, "/x")), sectionBegin))
	require.Equal(t, 2, strings.Count(string(withSection([]byte(sectionBegin+" cut off"), "/x")), sectionBegin), "text of the agent's stays")
}

func TestTheFileForAModelLeadsToTheTextOfPolis(t *testing.T) {
	h := newHomes(t)
	h.spec.Context, h.spec.ContextPath = "~/.tool/AGENTS.md", "/run/polis/AGENTS.md"
	at := filepath.Join(h.spec.Dir, ".tool/AGENTS.md")
	require.NoError(t, Refresh(h.spec))
	to, err := os.Readlink(at)
	require.NoError(t, err)
	require.Equal(t, "/run/polis/AGENTS.md", to)
	require.NoError(t, Refresh(h.spec), "it is there already")

	// A file of the agent's own stays, with a section.
	require.NoError(t, os.Remove(at))
	require.NoError(t, os.WriteFile(at, []byte("own\n"), 0o600))
	require.NoError(t, os.Chown(at, h.spec.UID, h.spec.GID))
	for range 2 {
		require.NoError(t, Refresh(h.spec))
		b, err := os.ReadFile(at)
		require.NoError(t, err)
		require.Equal(t, string(withSection([]byte("own\n"), "/run/polis/AGENTS.md")), string(b))
	}
	// What is neither is left alone.
	require.NoError(t, os.Remove(at))
	require.NoError(t, os.Symlink("/etc/passwd", at))
	require.NoError(t, Refresh(h.spec))
	to, err = os.Readlink(at)
	require.NoError(t, err)
	require.Equal(t, "/etc/passwd", to)
}
