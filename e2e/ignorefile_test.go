package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestIgnoreRulesThatAreTooLargeAreReported: the agent and the administrator get the reason why
// files that git ignores take leases.
func TestIgnoreRulesThatAreTooLargeAreReported(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice")
	d.sh("alice", "mkdir sub && echo x > sub/one.log")
	require.NotContains(t, d.locks(), "sub/one.log", "it is ignored")
	d.sh("alice", `{ echo '*.tmp'; head -c 300000 /dev/zero | tr '\\0' '#'; } > sub/.gitignore; sleep 0.2; echo x > sub/two.log`)
	d.heldBy("alice", "sub/two.log")
	require.Contains(t, d.must("agents", "why", "alice"), "sub/.gitignore")
	require.Contains(t, d.sh("alice", "cat /run/polis/why"), "TOO_LARGE")
	found := false
	for _, e := range d.happened(api.EventDenied) {
		found = found || e.Code == api.CodeTooLarge && e.Data["path"] == "sub/.gitignore"
	}
	require.True(t, found, "an event names the file")

	// What others put there for the worktree is named as the agent knows it.
	d.sh("alice", `rm sub/.gitignore; head -c 300000 /dev/zero | tr '\\0' '#' > "$(git rev-parse --git-path info/exclude)"; sleep 0.2; echo x > three.txt`)
	require.Contains(t, d.must("agents", "why", "alice"), ".git/info/exclude")
}
