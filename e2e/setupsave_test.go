package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Of the files that the setup command made, the trash gets what the agent has changed; the restored
// agent has the others from the result.
func TestTheTrashHasOnlyChangesOfWhatTheSetupMade(t *testing.T) {
	d, _ := prepared(t, options{}, "")
	d.must("agents", "add", "ann", "--base", "custom", "--wait-setup")
	d.sh("ann", `echo mine > node_modules/left/index.js; echo new > node_modules/new; echo t > kept`)
	d.must("agents", "remove", "ann", "--force", "--ignored")
	d.must("restore", "ann")
	d.sh("ann", `set -e; test "$(cat node_modules/left/index.js)" = mine; test "$(cat node_modules/new)" = new; test "$(cat kept)" = t
		test "$(stat -c %s node_modules/pad/index.js)" = 200000; test "$(git status --porcelain)" = '?? kept'`)
	d.must("agents", "stop", "ann")
	require.ElementsMatch(t, []string{"node_modules/left/index.js", "node_modules/new", "kept"}, d.own("ann"))
}
