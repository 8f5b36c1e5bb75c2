package systemd

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// removedSockets: polisd makes its socket again although systemd made the first one, which only systemd can hold over a
// restart. A restart of the socket's unit restarts polisd and touches no agent.
func removedSockets(t *testing.T) {
	alice := pid(t, "polis-agent@alice")
	inode := func() string { return must(t, "stat -c '%i %a %U %G' /run/polis/polisd.sock") }
	works := func() {
		t.Helper()
		eventually(t, "polisd answers", func() bool { return answers(t) })
		socketAccess(t)
		require.True(t, strings.HasSuffix(inode(), " 660 root polis\n"), inode())
		eventually(t, "the agent answers", func() bool {
			_, err := run(t, "polisctl agents exec alice -- true")
			return err == nil
		})
		require.Equal(t, alice, pid(t, "polis-agent@alice"))
		require.Equal(t, "active", property(t, "polisd.service", "ActiveState"))
	}
	must(t, "rm /run/polis/polisd.sock /run/polis/agents/alice/shim.sock")
	works()
	require.Contains(t, must(t, "polisctl --json events --all"), "systemctl restart polisd.socket")

	// What administrators and timers run mounts nothing over an agent, and removes nothing of polis.
	must(t, "mkdir /srv/more && echo 'tmpfs /srv/more tmpfs size=1m 0 0' >>/etc/fstab && mount -a && mountpoint -q /srv/more")
	works()
	must(t, "umount /srv/more && rmdir /srv/more && sed -i '\\|/srv/more|d' /etc/fstab && systemd-tmpfiles --clean")
	works()

	// systemd passes a socket that has lost its name.
	must(t, "systemctl daemon-reload && systemctl restart polisd")
	works()
	must(t, "systemctl restart polisd.socket")
	works()
	before := inode()
	must(t, "systemctl restart polisd")
	works()
	require.Equal(t, before, inode(), "systemd holds it again")
}
