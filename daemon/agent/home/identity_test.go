package home

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/git"
)

func TestTheIdentityFollowsUntilTheAgentHasItsOwn(t *testing.T) {
	h := newHomes(t)
	begin := func(by git.Idents) string {
		t.Helper()
		h.spec.By = by
		require.NoError(t, h.spec.refreshCopies(h.owner, true))
		return h.copyOf(".gitconfig")
	}
	ann, bot := git.Person{Name: "Ann", Email: "ann@x"}, git.Person{Name: `B "b"`, Email: "bot@x"}
	require.NoError(t, h.spec.refreshCopies(h.owner, false))
	require.Equal(t, "none", h.copyOf(".gitconfig"), "it is known when the agent starts")
	require.Equal(t, "[user]\n\tname = \"Ann\"\n\temail = \"ann@x\"\n", begin(git.Idents{Author: ann, Committer: ann}))
	both := "[user]\n\tname = \"Ann\"\n\temail = \"ann@x\"\n[committer]\n\tname = \"B \\\"b\\\"\"\n\temail = \"bot@x\"\n"
	require.Equal(t, both, begin(git.Idents{Author: ann, Committer: bot}))
	h.spec.By = git.Idents{}
	require.NoError(t, h.spec.refreshCopies(h.owner, false))
	require.Equal(t, both, h.copyOf(".gitconfig"))

	file := filepath.Join(h.spec.Dir, ".gitconfig")
	require.NoError(t, os.WriteFile(file, []byte(both+"[alias]\n\tst = status\n"), 0o644))
	require.Contains(t, begin(git.Idents{Author: bot, Committer: bot}), "[alias]")
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.Symlink("/etc/passwd", file))
	begin(git.Idents{Author: ann, Committer: ann})
	to, err := os.Readlink(file)
	require.NoError(t, err)
	require.Equal(t, "/etc/passwd", to)
}
