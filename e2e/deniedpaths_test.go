package e2e

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestCreatesOfHiddenNamesAreRefusals: a name that a rule hides cannot be made, which is counted and
// recorded as each other refusal is; the agent's own list of refusals does not name it. A name
// of any bytes is in the record as it is.
func TestCreatesOfHiddenNamesAreRefusals(t *testing.T) {
	d := startDaemon(t, options{config: "[roles.docs]\nread = [\"**\"]\nwrite = [\"docs/**\"]\nhide = [\"private\", \"*.pem\"]\n"})
	d.up()
	d.add("alice", "--role", "docs")
	before, _ := d.agent("alice")
	for _, script := range []string{"touch docs/key.pem", "mkdir private", "mkdir docs/d.pem", "ln -s /etc docs/l.pem", "mv docs/guide.md docs/guide.pem"} {
		require.Contains(t, d.exec("alice", "sh", "-c", script).stderr, "No such file", script)
	}
	require.NotZero(t, d.exec("alice", "sh", "-c", "printf x > $(printf 'bad\\377\\nname')").code)
	d.eventually("they are counted", func() bool {
		a, _ := d.agent("alice")
		return a.Counters != nil && (before.Counters == nil || a.Counters.WriteDenied >= before.Counters.WriteDenied+6)
	})
	var paths []string
	d.eventually("they are recorded", func() bool {
		paths = paths[:0]
		for _, r := range d.receipts("alice", "--type", api.EventDenied).Receipts {
			var data struct{ Path string }
			decode(t, string(r.Data), &data)
			paths = append(paths, api.DecodePath(data.Path))
			require.NotContains(t, r.Message, "\n")
		}
		return len(paths) >= 6
	})
	for _, want := range []string{"docs/key.pem", "private", "docs/d.pem", "docs/l.pem", "docs/guide.pem", "bad\xff\nname"} {
		require.True(t, slices.Contains(paths, want), "%q in %q", want, paths)
	}
	require.NotContains(t, d.sh("alice", "cat /run/polis/why"), "pem", "what is hidden stays so")
}
