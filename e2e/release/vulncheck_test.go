package release

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestVulncheck runs the check of known vulnerabilities against databases that are made here.
func TestVulncheck(t *testing.T) {
	check := func(db string, env ...string) (string, int) {
		cmd := exec.CommandContext(t.Context(), "../../scripts/vulncheck", "./packaging/sbom")
		cmd.Env = append(os.Environ(), append(env, "GOVULNDB="+db)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	t.Run("an unreachable database is reported, and fails where it is required", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		unreachable := "http://" + l.Addr().String()
		require.NoError(t, l.Close())
		for _, db := range []string{unreachable, "file:///nonexistent"} {
			out, status := check(db)
			require.Contains(t, out, "NOT CHECKED")
			require.Zero(t, status)
			out, status = check(db, "VULNCHECK_REQUIRED=1")
			require.Contains(t, out, "NOT CHECKED")
			require.Equal(t, 1, status)
		}
	})
	t.Run("a database that never answers does not hang it", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		start := time.Now()
		out, status := check("http://" + l.Addr().String())
		require.Contains(t, out, "NOT CHECKED")
		require.Zero(t, status)
		require.Less(t, time.Since(start), time.Minute)
	})
	t.Run("nothing is known", func(t *testing.T) {
		out, status := check(database(t, ""), "VULNCHECK_REQUIRED=1")
		require.Zero(t, status, out)
		require.Contains(t, out, "nothing found")
	})
	t.Run("a database that is damaged is a failure", func(t *testing.T) {
		db := database(t, "encoding/json")
		require.NoError(t, os.WriteFile(filepath.Join(strings.TrimPrefix(db, "file://"), "ID/GO-2099-0001.json"), []byte("{"), 0o600))
		out, status := check(db)
		require.NotZero(t, status, out)
	})
	t.Run("a vulnerability in what is called is a failure", func(t *testing.T) {
		out, status := check(database(t, "encoding/json"))
		require.Equal(t, 3, status, out)
		require.Contains(t, out, "GO-2099-0001")
		require.Contains(t, out, "update the modules or Go")
	})
}

// database writes a vulnerability database (go.dev/doc/security/vuln/database) with one entry, for a package of
// the standard library, or none.
func database(t *testing.T, pkg string) string {
	dir := t.TempDir()
	write := func(name string, v any) {
		b, err := json.Marshal(v)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	const modified = "2099-01-01T00:00:00Z"
	modules, vulns := []any{}, []any{}
	if pkg != "" {
		id := "GO-2099-0001"
		vulns = append(vulns, map[string]any{"id": id, "modified": modified})
		modules = append(modules, map[string]any{"path": "stdlib", "vulns": []any{map[string]any{"id": id, "modified": modified}}})
		write("ID/"+id+".json", map[string]any{"schema_version": "1.3.1", "id": id, "modified": modified, "published": modified, "summary": "an entry of a test", "database_specific": map[string]any{"url": "https://vuln.example.com/" + id},
			"affected": []any{map[string]any{"package": map[string]any{"name": "stdlib", "ecosystem": "Go"},
				"ranges":             []any{map[string]any{"type": "SEMVER", "events": []any{map[string]any{"introduced": "0"}}}},
				"ecosystem_specific": map[string]any{"imports": []any{map[string]any{"path": pkg, "symbols": []string{"Unmarshal", "Encoder.Encode", "Decoder.Decode"}}}}}}})
	}
	write("index/db.json", map[string]any{"modified": modified})
	write("index/modules.json", modules)
	write("index/vulns.json", vulns)
	return "file://" + dir
}
