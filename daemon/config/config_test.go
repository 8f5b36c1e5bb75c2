package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/api/setting"
)

func TestParseRefusesWhatItDoesNotUnderstand(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":           {`colour = "blue"`, `unknown key "colour"`},
		"unknown nested key":    {"[network]\nprots = \"1-2\"", `unknown key "network.prots"`},
		"unknown key in a role": {"[roles.a]\nwirte = [\"x\"]", `unknown key "roles.a.wirte"`},
		"relative run_dir":      {`run_dir = "run"`, "run_dir"},
		"run_dir not clean":     {`run_dir = "/run/../x"`, "run_dir"},
		"run_dir too long":      {`run_dir = "/` + strings.Repeat("a", 60) + `"`, "50 bytes"},
		"launcher":              {`launcher = "cron"`, "launcher"},
		"no agents":             {`max_agents = 0`, "max_agents"},
		"too many agents":       {`max_agents = 5000`, "max_agents"},
		"pool not private":      {"[network]\npool = \"8.8.0.0/16\"", "network.pool"},
		"pool too small":        {"[network]\npool = \"10.1.1.0/24\"", "network.pool"},
		"ports reversed":        {"[network]\nports = \"9-3\"", "network.ports"},
		"ports privileged":      {"[network]\nports = \"80-90\"", "network.ports"},
		"bind not an address":   {"[network]\nbind = \"localhost\"", "network.bind"},
		"proxy not a port":      {"[network]\nproxy = \"localhost:3000\"", "network.proxy"},
		"proxy among the ports": {"[network]\nproxy = \"127.0.0.1:3001\"", "network.ports"},
		"wait not a duration":   {"[locks]\nwait = \"soon\"", "duration"},
		"wait negative":         {"[locks]\nwait = \"-1s\"", "locks.wait"},
		"hold":                  {"[locks]\nhold = \"forever\"", "locks.hold"},
		"memory too small":      {"[limits]\nmemory_mb = 1", "limits.memory_mb"},
		"files too few":         {"[limits]\ndisk_files = 99", "limits.disk_files"},
		"connections too few":   {"[limits]\nconnections = 1", "limits.connections"},
		"memory not a number":   {"[limits]\nmemory_mb = \"much\"", "memory_mb"},
		"mount source relative": {"[[sandbox.extra_mounts]]\nsource = \"x\"\ndest = \"/x\"", "extra_mounts[0]"},
		"shared path":           {"[shared]\npaths = [\"a\", \"\"]", "shared.paths[1]"},
		"not toml":              {"run_dir", "expected"},
		"degraded":              {"[sandbox]\ndegraded = \"maybe\"", "sandbox.degraded"},
		"path with a colon":     {"[sandbox]\npath = [\"/a:/b\"]", "sandbox.path[0]"},
		"log level":             {`log_level = "loud"`, "log_level"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(c.text)
			require.Error(t, err)
			require.Equal(t, api.CodeInvalidConfig, api.CodeOf(err))
			require.Contains(t, err.Error(), c.want)
		})
	}
}

func TestParseKeepsDefaultsAndReadsEverything(t *testing.T) {
	c, err := Parse(`
run_dir = "/tmp/p"
[locks]
wait = "0s"
hold = "merge"
[roles.reviewer]
read = ["**"]
write = ["docs/**"]
deny = [".env"]
temp = true
`)
	require.NoError(t, err)
	require.Equal(t, "/tmp/p", c.RunDir)
	require.Equal(t, 10, c.MaxAgents)
	require.Equal(t, setting.OnConflict("0s"), c.Locks.OnConflict)
	require.Equal(t, []string{"docs/**"}, c.Roles["reviewer"].Write)
	require.True(t, c.Roles["reviewer"].Temp)
	lo, hi := c.PortRange()
	require.Equal(t, [2]int{3001, 9999}, [2]int{lo, hi})
	require.NotEmpty(t, c.Instance())
	d := Default()
	require.Empty(t, d.Instance())
}

func TestLoadNamesTheFile(t *testing.T) {
	f := filepath.Join(t.TempDir(), "polisd.toml")
	require.NoError(t, os.WriteFile(f, []byte("x = 1"), 0o600))
	_, err := Load(f)
	require.ErrorContains(t, err, f)
	_, err = Load(f + ".missing")
	require.Error(t, err)
}

func TestBaseTypes(t *testing.T) {
	dir := t.TempDir()
	types, err := LoadTypes(dir, Sandbox{})
	require.NoError(t, err)
	require.Contains(t, types, "custom")
	require.Contains(t, types, "claude")
	require.True(t, types["custom"].Available)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "mine.toml"), []byte("program = \"sh\"\nrun = [\"sh\", \"-c\", \"echo {prompt}\"]"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "gone.toml"), []byte("program = \"no-such-program\""), 0o600))
	types, err = LoadTypes(dir, Sandbox{})
	require.NoError(t, err)
	mine, err := PickType(types, "mine")
	require.NoError(t, err)
	require.Equal(t, []string{"sh", "-c", "echo hi"}, mine.PromptCommand(nil, "hi"))
	require.Equal(t, []string{"cat", "hi"}, types["custom"].PromptCommand([]string{"cat"}, "hi"))
	require.Nil(t, types["custom"].PromptCommand(nil, "hi"))

	for _, name := range []string{"gone", "nonsense", ""} {
		_, err = PickType(types, name)
		require.Equal(t, api.CodeAgentTypeUnavailable, api.CodeOf(err))
		require.Contains(t, api.AsError(err).Hint, "custom")
		require.Equal(t, name == "gone", strings.Contains(api.AsError(err).Hint, "agents.d/gone.toml"), "it says how to bring one in")
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bad.toml"), []byte("programm = \"sh\""), 0o600))
	_, err = LoadTypes(dir, Sandbox{})
	require.ErrorContains(t, err, "programm")
}

func FuzzParse(f *testing.F) {
	f.Add("run_dir = \"/x\"\n[locks]\nwait=\"3s\"")
	f.Add("[roles.a]\nread=[\"**\"]")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text)
		if err == nil {
			require.NoError(t, c.check())
		}
	})
}
