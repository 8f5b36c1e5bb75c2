package e2e

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/http/client"
)

// gate is a writer that waits until it is opened.
type gate struct {
	open chan struct{}
	out  io.Writer
}

func (g gate) Write(p []byte) (int, error) {
	<-g.open
	return g.out.Write(p)
}

// TestATerminalThatReadsTooSlowlyIsDisconnected so that it does not stop the agent, and it can be
// attached again.
func TestATerminalThatReadsTooSlowlyIsDisconnected(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("loud", "--", "sh", "-c", "read x; head -c 40000000 /dev/zero | tr '\\0' 'x'; touch $HOME/printed; echo; echo the end; read y")
	d.must("agents", "start", "--program", "loud")
	c := client.New(d.path("run", "polisd.sock"))
	defer c.Close()
	s, err := c.AttachTo(t.Context(), "loud", wire.ExecRequest{TTY: true, Rows: 24, Cols: 80})
	require.NoError(t, err)
	defer s.Close()
	var out bytes.Buffer
	g := gate{make(chan struct{}), &out}
	ended := make(chan error, 1)
	go func() { _, err := s.Run(t.Context(), g, io.Discard); ended <- err }()
	_, err = s.Stdin().Write([]byte("go\n"))
	require.NoError(t, err)
	d.eventually("all is printed, though nobody reads it", func() bool {
		_, err := os.Stat(d.home("loud", "printed"))
		return err == nil
	})
	close(g.open)
	err = <-ended
	require.Equal(t, api.CodeUnavailable, api.CodeOf(err))
	require.Equal(t, "attach again, or use polisctl agents watch", api.AsError(err).Hint)
	require.Contains(t, d.must("agents", "watch", "loud"), "the end")
	again, err := c.AttachTo(t.Context(), "loud", wire.ExecRequest{TTY: true, Rows: 24, Cols: 80})
	require.NoError(t, err)
	require.NoError(t, again.Close())
}

// TestAMaintenanceThatFailsIsReported with what was done, and the next one does the rest.
func TestAMaintenanceThatFailsIsReported(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice")
	d.sh("alice", "echo mine > mine.txt; git add .; git commit -qm mine")
	d.must("discard", "alice", "--yes")
	pack := d.path("ws", ".polis", "internal.git", "objects", "pack")
	require.NoError(t, os.Rename(pack, pack+".away"))
	require.NoError(t, os.WriteFile(pack, nil, 0o644))
	given := d.hinted("nothing that may be needed was removed; polisctl maintenance shows what was done", "maintenance", "--now")
	require.True(t, strings.HasSuffix(given, "polisctl maintenance shows what was done"))
	require.Contains(t, d.must("maintenance"), "pack the trash")
	require.NoError(t, os.Remove(pack))
	require.NoError(t, os.Rename(pack+".away", pack))
	d.must("maintenance", "--now")
	d.must("restore", "alice")
	require.Equal(t, "mine", strings.TrimSpace(d.sh("alice", "cat mine.txt")))
}
