package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAnAgentStartsAgainWhateverItHasCheckedOut: a rebase in progress has a detached HEAD, and an
// agent can be on another branch of its own. Its next start leaves that as it is.
func TestAnAgentStartsAgainWhateverItHasCheckedOut(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	state := map[string]string{}
	for name, command := range map[string]string{"detached": "git checkout -q --detach", "other": "git checkout -q -b side"} {
		d.add(name)
		d.sh(name, command+" && echo x >new.txt")
		state[name] = d.sh(name, "git status --porcelain --branch")
		d.must("agents", "stop", name)
		d.must("agents", "start", "--program", name)
		require.Equal(t, state[name], d.sh(name, "git status --porcelain --branch"), name)
	}
	d.stop()
	d.start()
	for name, was := range state {
		require.Equal(t, was, d.sh(name, "git status --porcelain --branch"), name)
	}
}
