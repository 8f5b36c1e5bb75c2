package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
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

// The check of a merge has what the setup command made for the inputs of the merge, and changes none of
// it. A polisd that dies meanwhile leaves no mount.
func TestAMergeIsCheckedWithWhatTheSetupMade(t *testing.T) {
	d, repo := prepared(t, options{failpoints: true,
		config: "[merge]\ncheck = \"test -s main.txt; test -s node_modules/left/index.js; echo changed > node_modules/left/index.js; rm -r node_modules/pad\"\n"}, "")
	d.must("agents", "add", "ann", "--base", "custom", "--wait-setup")
	made := filepath.Join(d.path("ws", ".polis", "setups", d.current().ID), "tree")
	before := picture(t, made)
	commit := func(text string) { d.sh("ann", ident+"echo "+text+" >> main.txt; git commit -qam "+text) }
	commit("first")
	d.must("merge", "ann")
	require.Contains(t, readFile(filepath.Join(repo, "main.txt")), "first")
	require.Equal(t, before, picture(t, made))
	left := func() bool { return strings.Contains(strings.Join(d.mounts(), "\n"), "/check/") }
	require.False(t, left())

	commit("second")
	d.dieAt("check:mounted", func() result { return d.ctl("merge", "ann") })
	d.eventually("the next polisd to merge it", func() bool { return strings.Contains(readFile(filepath.Join(repo, "main.txt")), "second") })
	d.eventually("no mount to be left", func() bool { return !left() })
	require.Equal(t, before, picture(t, made))

	// Other inputs, for which nothing was made: an unmerged commit does not decide what agents get.
	d.sh("ann", ident+"echo third >> deps.lock; git commit -qam inputs")
	d.refused(api.CodeCheckFailed, "merge", "ann")
	require.Len(t, d.setupStatus().Results, 1)
	d.must("merge", "ann", "--no-check")
}
