package systemd

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// longGrace stops polisd while a program ignores TERM for a stop_grace that is longer than the
// TimeoutStopSec= of the units: polisd and the shim extend it, and systemd kills neither.
func longGrace(t *testing.T) {
	const file = "/etc/polis/polisd.toml"
	bound, grace := 3*time.Second, 5*time.Second
	if slowMachine() {
		bound, grace = 15*time.Second, 30*time.Second
	}
	must(t, fmt.Sprintf("cp %s /run/polisd.toml && sed -i 's/^\\[limits\\]$/&\\nstop_grace = \"%s\"/' %s && grep -q '^stop_grace' %s && systemctl reload polisd", file, grace, file, file))
	for _, unit := range []string{"polisd", "polis-agent@"} {
		dir := "/etc/systemd/system/" + unit + ".service.d"
		require.NoError(t, os.Mkdir(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "t.conf"), fmt.Appendf(nil, "[Service]\nTimeoutStopSec=%d\n", int(bound.Seconds())), 0o644))
	}
	must(t, "systemctl daemon-reload")
	must(t, `polisctl agents add stubborn --workspace ws --base custom --write '**' -- sh -c 'trap "" TERM; echo > ready.txt; while :; do sleep 0.1; done' && polisctl agents start --program stubborn`)
	eventually(t, "it ignores TERM", func() bool { return len(glob("/tmp/ws/.polis/worktrees/stubborn/ready.txt")) > 0 })

	began := time.Now()
	must(t, "systemctl stop polisd")
	require.GreaterOrEqual(t, time.Since(began), grace, "the program had its time\n%s", journal(t))
	require.Equal(t, "success", property(t, "polisd", "Result"), journal(t))
	require.NotContains(t, must(t, "journalctl --no-pager -q -o cat -u polisd -u polis-agent@stubborn"), "State 'stop-sigterm' timed out")
	require.Empty(t, glob("/sys/fs/cgroup/polis.slice/polis-agent@stubborn.service"))

	must(t, "mv /run/polisd.toml "+file+" && rm -r /etc/systemd/system/polisd.service.d /etc/systemd/system/polis-agent@.service.d && systemctl daemon-reload && systemctl start polisd")
	eventually(t, "polisd answers", func() bool { return answers(t) })
	must(t, "polisctl agents remove stubborn --force")
}
