package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// send succeeds when the program has read the text, whatever mode its terminal is in.
func TestSendReportsWhetherTheProgramReads(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	for name, c := range map[string]struct {
		script string
		code   api.Code // "": it is sent
		says   string
	}{
		"lines":      {`while read line; do echo "got $line"; done`, "", "got hello"},
		"characters": {`stty raw -echo; echo ready; dd bs=1 count=6 2>/dev/null | tr '\r' '!'; echo; sleep 1000`, "", "hello!"},
		"later":      {`stty -echo; sleep 2; read line; echo "got $line"; sleep 1000`, "", "got hello"},
		"never":      {`echo ready; sleep 1000`, api.CodeTimeout, "has not read"},
		"never-raw":  {`stty raw -echo; echo ready; sleep 1000`, api.CodeTimeout, "has not read"},
		"dialog":     {`echo "Do you trust the files in this folder?"; read answer; exit 3`, api.CodeBadState, "ended with exit code 3"},
		"goodbye":    {`read answer; exit 0`, "", ""},
	} {
		d.add(name, "--", "sh", "-c", c.script)
		d.must("agents", "start", "--program", name)
		if strings.Contains(c.script, "ready") {
			d.eventually(name+" to be ready", func() bool { return strings.Contains(d.must("agents", "watch", name), "ready") })
		}
		if c.code == "" {
			require.Contains(t, d.must("send", name, "hello"), "sent to agent "+name)
			d.eventually(name+" to answer", func() bool { return strings.Contains(d.must("agents", "watch", name), c.says) })
			continue
		}
		e := d.refused(c.code, "send", name, "hello")
		require.Contains(t, e.Message, c.says, name)
		require.Contains(t, e.Hint, "polisctl agents watch "+name, name)
	}
}
