package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestARefusalNamesTheProcess and its program, and not the thread that made the call: runtimes give theirs names such as
// "Bun Pool 1".
func TestARefusalNamesTheProcess(t *testing.T) {
	needProgram(t, "python3")
	d := startDaemon(t, options{})
	d.up()
	d.add("ann", "--write", "docs/**")
	const script = `
import ctypes, os, threading
def touch():
    ctypes.CDLL(None).prctl(15, b"Bun Pool 1", 0, 0, 0)
    try:
        open("main.txt", "a")
    except PermissionError:
        print("refused", threading.get_native_id() != os.getpid())
t = threading.Thread(target=touch)
t.start()
t.join()
`
	require.Equal(t, "refused True\n", d.exec("ann", "python3", "-c", script).stdout)
	var e api.Event
	d.eventually("the event", func() bool {
		for _, e = range d.eventsOf(api.EventDenied) {
			if e.Data["path"] == "main.txt" {
				return true
			}
		}
		return false
	})
	program, ok := e.Data["program"].(string)
	require.True(t, ok)
	require.True(t, strings.HasPrefix(program, "python3"), program)
	by := fmt.Sprintf("%s (pid %.0f)", program, e.Data["pid"])
	require.Contains(t, e.Message, "of main.txt was refused (UNDECLARED_WRITE), asked by "+by)
	require.Contains(t, d.must("agents", "why", "ann"), "asked by "+by)
	require.Contains(t, d.exec("ann", "cat", "/run/polis/why").stdout, "asked by:  "+program+"\n")
}
