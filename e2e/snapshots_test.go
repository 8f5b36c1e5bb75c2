package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// OpenCode records every step of a task in a git directory of its own, over the agent's work tree.
// It lists the changes, excludes what the repository ignores, adds the rest, and can return to any
// step. A file that the role denies counts as ignored, so that one file does not make every step
// fail.
func TestAProgramsOwnSnapshotsLeaveOutWhatIsDenied(t *testing.T) {
	d := startDaemon(t, options{config: "[roles.worker]\ndeny = [\"secret/**\"]\n"})
	d.up()
	d.add("alice", "--role", "worker")
	const snapshot = `
snap() { git --git-dir="$HOME/snap" --work-tree=. "$@"; }
step() {
	snap ls-files --deleted --modified --others --exclude-standard -z >"$HOME/changed"
	git check-ignore --no-index --stdin -z <"$HOME/changed" >"$HOME/ignored" || true
	tr '\0' '\n' <"$HOME/changed" | grep -vxFf <(tr '\0' '\n' <"$HOME/ignored") | snap add --all --pathspec-from-file=-
	snap write-tree
}
`
	bash := func(script string) string {
		t.Helper()
		r := d.exec("alice", "bash", "-ec", snapshot+script)
		require.Zero(t, r.code, r.String())
		return r.stdout
	}
	bash(`snap init -q`)
	require.NotZero(t, d.exec("alice", "bash", "-ec", snapshot+`snap add --all`).code, "what is denied cannot be read")
	require.Equal(t, "secret/key.txt\x00", bash(`step >"$HOME/one"; cat "$HOME/ignored"`))
	require.Equal(t, "main.txt\nnew.txt\n", bash(`echo four >>main.txt; echo new >new.txt; step >"$HOME/two"; snap diff --name-only $(cat "$HOME/one") $(cat "$HOME/two")`))
	require.Equal(t, "one\ntwo\nthree\n", bash(`snap checkout -q $(cat "$HOME/one") -- main.txt; cat main.txt`), "an undone step")
	require.Equal(t, "?? new.txt\n", bash(`git status --short`), "the agent's own git sees none of it")
}
