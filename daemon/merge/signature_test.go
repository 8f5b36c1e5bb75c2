package merge

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/git"
)

func TestMergesAreByTheProjectsOwnerUnlessAnIdentityIsConfigured(t *testing.T) {
	f := setup(t)
	last := func() string {
		t.Helper()
		out, err := f.Workspace.Bare().Run(t.Context(), "log", "-1", "--format=%an <%ae>, %cn <%ce>%n%(trailers:only,unfold)", "main")
		require.NoError(t, err)
		return strings.TrimSpace(string(out))
	}
	merged := func(agent string, req Request) string {
		t.Helper()
		f.work(t, agent, agent, "by "+agent)
		req.Agent, req.Branch = agent, "agent/"+agent
		_, err := f.Merge(t.Context(), req)
		require.NoError(t, err)
		return last()
	}
	require.Equal(t, "polis <polis@localhost>, polis <polis@localhost>\nPolis-Agent: none", merged("none", Request{Trailer: "Polis-Agent: none"}), "git would not let the owner commit")

	home := t.TempDir()
	require.NoError(t, os.WriteFile(home+"/.gitconfig", []byte("[user]\n\tname = Ann\n\temail = ann@x\n[committer]\n\temail = c@x\n"), 0o644))
	f.Home = func(uint32) string { return home }
	require.Equal(t, "Ann <ann@x>, Ann <c@x>\nMerged-by: polis\nPolis-Agent: one", merged("one", Request{Trailer: "Polis-Agent: one"}))
	require.Equal(t, "Ann <ann@x>, Ann <c@x>\nReviewed-by: R <r@x>\nMerged-by: polis", merged("two", Request{Message: "Two\n\nReviewed-by: R <r@x>"}))
	tip, err := f.Workspace.Bare().Ref(t.Context(), "refs/heads/main")
	require.NoError(t, err)
	_, err = f.Revert(t.Context(), tip)
	require.NoError(t, err)
	require.Equal(t, "Ann <ann@x>, Ann <c@x>\nMerged-by: polis", last())

	set := git.Person{Name: "Bot"}
	f.Identity = func() git.Person { return set }
	require.Equal(t, "Bot <ann@x>, Bot <c@x>\nMerged-by: polis", merged("three", Request{}))
	set.Email = "bot@x"
	require.Equal(t, "Bot <bot@x>, Bot <bot@x>", merged("four", Request{}))

	// What a person signs is by that person, whatever is configured.
	f.work(t, "five", "five", "by five")
	signed, err := f.ToSign(t.Context(), Request{Agent: "five", Branch: "agent/five", Trailer: "Polis-Agent: five"})
	require.NoError(t, err)
	require.Equal(t, "Merge branch 'agent/five' into main\n\nMerged-by: polis\nPolis-Agent: five\n", signed.Message)
}
