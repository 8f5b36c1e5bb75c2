package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// asks is a stand-in that asks a question at its first start in a directory, as coding agents do.
const asks = `grep -q "\"$PWD\"" ~/.asks/trusted.json 2>/dev/null || { echo "Do you trust the files in this folder?"; read answer; exit 1; }; echo ready; cat`

func TestAFirstStartShowsNoDialog(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	require.NoError(t, os.MkdirAll(d.path("agents.d"), 0o755))
	script := fmt.Sprintf("[\"sh\", \"-c\", %s", strconv.Quote(asks))
	lines := "interactive = " + script + "]\nrun = " + script + ", \"{prompt}\"]\n"
	d.write("agents.d/asking.toml", lines)
	d.write("agents.d/answered.toml", lines+"answers = [{ file = \".asks/trusted.json\", format = \"json\", at = [\"{project}\"], value = \"yes\" }]\n")
	for name, want := range map[string]string{"asking": "Do you trust", "answered": "ready"} {
		d.must("agents", "add", name, "--base", name)
		d.must("agents", "start", "--program", name)
		d.eventually(name+" to begin", func() bool { return strings.Contains(d.must("agents", "watch", name), want) })
	}
	require.Contains(t, d.must("agents", "types", "answered"), ".asks/trusted.json: {project} = yes")
}
