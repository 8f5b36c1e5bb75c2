package e2e

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHintsAboutLearnedPolicies(t *testing.T) {
	d := startDaemon(t, options{config: "[agents.alice]\npolicy = \"enforce\"\n[agents.carol]\npolicy = \"record\"\n"})
	d.up()
	d.add("alice")
	none := tried{hint: `set policy = "record" in [agents.%[1]s] of polisd.toml, reload polisd, then polisctl agents stop %[1]s and polisctl agents start %[1]s`, refused: "policy learn alice"}
	require.Contains(t, d.hinted(none.hint, words(none.refused)...), "[agents.alice]")
	d.write("polisd.toml", strings.Replace(readFile(d.path("polisd.toml")), `policy = "enforce"`, `policy = "record"`, 1))
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGHUP))
	d.eventually("alice is in record mode", func() bool {
		d.must("agents", "stop", "alice")
		d.must("agents", "start", "alice")
		a, _ := d.agent("alice")
		return a.Recording
	})
	d.sh("alice", "cat README.md")
	require.Contains(t, d.must("policy", "learn", "alice"), "/README.md")

	d.add("carol", "--deny", "secret/**")
	require.NotZero(t, d.exec("carol", "cat", "secret/key.txt").code)
	d.hinted("a role without rules would allow everything: let the agent work first", "policy", "learn", "carol")
	d.sh("carol", "cat README.md")
	require.Contains(t, d.must("policy", "learn", "carol"), "/README.md")
}
