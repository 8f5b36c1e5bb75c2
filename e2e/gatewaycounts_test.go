package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// gateway is the configuration of an agent with one model service, by the role "with".
func gatewayConfig(t *testing.T, url string) string {
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte(firstKey+"\n"), 0o600))
	return "[network]\negress = \"none\"\n[models.claude]\nkind = \"anthropic\"\nurl = \"" + url + "\"\nkey_file = \"" + key + "\"\n[roles.with.gateway]\nmodels = [\"claude\"]\nday_tokens = 1000000\n"
}

// TestDamagedModelCountsKeepTheGatewayClosed until an administrator does what the hint says.
func TestDamagedModelCountsKeepTheGatewayClosed(t *testing.T) {
	needProgram(t, "curl")
	s := startModelService(t)
	d := startDaemon(t, options{config: gatewayConfig(t, s.URL)})
	d.up()
	d.add("ana", "--role", "with")
	const ask = askModel + `'{"model":"good-1"}'`
	require.Contains(t, d.sh("ana", ask), `"output_tokens":20`)
	d.must("agents", "stop", "ana")
	logs := glob(d.path("ws", ".*", "logs", "ana"))
	require.Len(t, logs, 1)
	sums := filepath.Join(logs[0], "models.json")
	require.NoError(t, os.WriteFile(sums, []byte("{\n"), 0o600))
	d.must("agents", "start", "ana")
	require.NotZero(t, d.exec("ana", "sh", "-c", ask).code)
	for _, want := range []string{sums, "move it and models.log away"} {
		require.Contains(t, d.must("--json", "agents", "list"), want)
		require.Contains(t, d.log(), want)
	}
	require.Contains(t, d.log(), "the gateway of agent ana stays closed")
	require.Equal(t, "{\n", readFile(sums))

	for _, name := range []string{sums, filepath.Join(logs[0], "models.log")} {
		require.NoError(t, os.Rename(name, name+".away"))
	}
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGHUP))
	d.eventually("the gateway is open", func() bool { return strings.Contains(d.exec("ana", "sh", "-c", ask).stdout, `"output_tokens":20`) })
	require.Equal(t, []api.ModelUse{{Key: "ana", Requests: 1, InputTokens: 100, OutputTokens: 20, Unpriced: 1}}, d.usage("agent"))
}
