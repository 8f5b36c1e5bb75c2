package foreign

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func read(t *testing.T, files map[string]string) ([]Setting, error) {
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	return Read(root, nil)
}

func TestSettingsOfOtherTools(t *testing.T) {
	got, err := read(t, map[string]string{
		"conductor.json": `{"scripts": {"setup": "npm ci", "run": "npm run dev", "archive": ""}}`,
		".devcontainer/devcontainer.json": `{
			// ports
			"forwardPorts": [3000, "db:5432",], /* the rest */
			"image": "x",
		}`,
		".claude/settings.json": `{"permissions": {"allow": ["Bash(npm run test:*)", "WebFetch"], "deny": ["Read(./.env)", "Read(~/.ssh/**)"], "ask": ["Edit(src/**)"]},
			"sandbox": {"network": {"allowedDomains": ["example.org", "*.example.org"], "allowLocalBinding": true}}}`,
		".srt-settings.json": `{"filesystem": {"denyRead": ["~/.ssh", "secrets"], "allowWrite": [".", "/tmp"], "denyWrite": [".env"]}}`,
	})
	require.NoError(t, err)
	by := map[string]Setting{}
	mapped := 0
	for _, s := range got {
		by[s.File+" "+s.Key+" "+s.Value] = s
		require.NotEqual(t, s.Mapped(), s.Note != "", "%+v: it is mapped, or it has a reason", s)
		if s.Mapped() {
			mapped++
		}
	}
	require.Equal(t, 8, mapped)
	require.Equal(t, []string{"--port", "3000"}, by[".devcontainer/devcontainer.json forwardPorts 3000"].Options)
	require.Equal(t, []string{"--egress", "example.org,*.example.org"}, by[".claude/settings.json sandbox.network.allowedDomains example.org, *.example.org"].Options)
	require.Equal(t, "[roles.adopted]\ndeny = [\".env\"]", by[".claude/settings.json permissions.deny Read(./.env)"].Config)
	require.Equal(t, "[roles.adopted.tools]\nauto_approve = [\"shell(npm run test *)\"]", by[".claude/settings.json permissions.allow Bash(npm run test:*)"].Config)
	require.Equal(t, []string{"--deny", "secrets"}, by[".srt-settings.json filesystem.denyRead secrets"].Options)
	require.Equal(t, []string{"--write", "**"}, by[".srt-settings.json filesystem.allowWrite **"].Options)
	require.NotEmpty(t, by["conductor.json scripts.setup npm ci"].Note)
}

func TestHostileFilesAreErrors(t *testing.T) {
	got, err := read(t, map[string]string{"conductor.json": "[", ".srt-settings.json": `{"network": {"allowedDomains": ["a.example"]}}`, ".devcontainer.json": strings.Repeat(" ", maxFile+1)})
	require.ErrorContains(t, err, "conductor.json")
	require.ErrorContains(t, err, ".devcontainer.json")
	require.Len(t, got, 1, "the others are read")

	dir := t.TempDir()
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "conductor.json")))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	_, err = Read(root, nil)
	require.ErrorContains(t, err, "escapes")
}

// FuzzRead: no document makes a reader panic, and what it returns is text that JSON can hold.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"permissions": {"deny": ["Read(./.env)", "Bash(", "()", ")"]}, "forwardPorts": [1e99, -1, "x"], "scripts": {"setup": "x"}}`))
	f.Add([]byte(`{"a": "// no comment", /* one */ "b": [1,],}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		for _, r := range readers() {
			err := r.read("x", stripComments(doc), func(s Setting) {
				_, err := json.Marshal(s)
				require.NoError(t, err)
			})
			_ = err
		}
	})
}

// FuzzStripComments: a document without comments and trailing commas stays as it is.
func FuzzStripComments(f *testing.F) {
	f.Add(`{"a": "\"//", "b": [1, {"c": null}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) {
			stripComments([]byte(text))
			return
		}
		require.Equal(t, text, string(stripComments([]byte(text))))
	})
}
