package systemd

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// escalation requires that a case of the patrol is in the journal once, with the configured priority
// and the fields to find it by, and that a restart of polisd does not write it again.
func escalation(t *testing.T) {
	const file = "/etc/polis/polisd.toml"
	must(t, "printf '# escalation\\n[breakers]\\ndenials = 20\\n[patrol.escalation]\\njournal = \"alert\"\\npause = \"0s\"\\n' >> "+file+" && systemctl reload polisd")
	must(t, `polisctl agents add wild --workspace ws --base custom --write 'ok/**' -- sh -c 'while :; do echo > denied; done 2>/dev/null' && polisctl agents start --program wild`)
	eventually(t, "the case is in the journal", func() bool { return len(entries(t, "-t polisd -p alert POLIS_AGENT=wild")) > 0 })
	all := entries(t, "-t polisd -p alert POLIS_AGENT=wild")
	require.Len(t, all, 1)
	e := all[0]
	require.Equal(t, []string{"1", "polisd", "ws"}, []string{e.Priority, e.Tag, e.Place})
	require.Contains(t, e.Message, e.Case+": agent wild (breaker, pending): breaker denials: 21 in")
	require.Contains(t, e.Message, "polisctl patrol show "+e.Case)
	require.Contains(t, must(t, "polisctl patrol show "+e.Case), "escalated  1 time")
	require.Contains(t, must(t, "polisctl agents list"), "wild: frozen ")

	must(t, "systemctl restart polisd")
	eventually(t, "polisd answers", func() bool { return answers(t) })
	must(t, "polisctl patrol run --once")
	require.Contains(t, must(t, "polisctl agents list"), "wild: frozen ")
	require.Len(t, entries(t, "POLIS_CASE="+e.Case), 1, "it is not due again")
	must(t, "polisctl agents remove wild --force && sed -i '/^# escalation/,$d' "+file+" && systemctl reload polisd")
}
