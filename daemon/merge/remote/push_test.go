package remote

import (
	"errors"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
	"polis/daemon/merge/gate"
)

// deletes judges updates without a commit: no repository is read for them.
func deletes() PushJudge {
	return PushJudge{Agent: Pusher{Name: "alice", Branch: "agent/alice", Branches: []string{"release/*"}, Owned: []string{"refs/tags/mine"}}, Target: "main", Remote: "origin"}
}

func TestAnAgentPushesItsOwnNamesOnly(t *testing.T) {
	for ref, refused := range map[string]string{
		"refs/heads/agent/alice": "",
		"refs/tags/mine":         "",
		"refs/heads/release/1":   "",
		"refs/heads/release/1/2": "not a branch or tag of agent alice",
		"refs/heads/agent/bob":   "not a branch or tag of agent alice",
		"refs/heads/mine":        "not a branch or tag of agent alice",
		"refs/tags/release/1":    "not a branch or tag of agent alice",
		"refs/heads/main":        "merges go there: polisctl merge alice",
	} {
		allowed, why, err := deletes().Split(t.Context(), []api.RemoteUpdate{{Ref: ref}})
		require.NoError(t, err, ref)
		if refused == "" {
			require.Len(t, allowed, 1, ref)
			require.Empty(t, why, ref)
			continue
		}
		require.Empty(t, allowed, ref)
		require.Contains(t, why[ref], refused, ref)
	}
	j := deletes()
	j.Agent.Branches = []string{"main"}
	allowed, _, err := j.Split(t.Context(), []api.RemoteUpdate{{Ref: "refs/heads/main"}})
	require.NoError(t, err)
	require.Len(t, allowed, 1, "the configuration can name the target, too")
}

func TestAnUpdateThatIsNoBranchOrTagIsAnError(t *testing.T) {
	for _, u := range []api.RemoteUpdate{
		{Ref: "HEAD"}, {Ref: "refs/notes/commits"}, {Ref: "refs/heads/"}, {Ref: "refs/heads/a..b"}, {Ref: "refs/heads/-x"},
		{Ref: "refs/heads/agent/alice", Commit: "main"}, {Ref: "refs/heads/agent/alice", Commit: "--all"},
	} {
		_, _, err := deletes().Split(t.Context(), []api.RemoteUpdate{u})
		require.Equal(t, api.CodeBadRequest, api.CodeOf(err), u.Ref)
	}
	for _, n := range []int{0, MaxUpdates + 1} {
		_, _, err := deletes().Split(t.Context(), make([]api.RemoteUpdate, n))
		require.Equal(t, api.CodeBadRequest, api.CodeOf(err))
	}
}

func TestRulesThatCannotBeReadAllowNothing(t *testing.T) {
	j := deletes()
	j.Rules = func() (gate.Rules, error) { return gate.Rules{}, errors.New("no rules") }
	require.ErrorContains(t, j.content(t.Context(), "refs/heads/agent/alice", strings.Repeat("1", 40)), "no rules")
}

func TestPropertyWhatIsAllowedIsTheAgents(t *testing.T) {
	j := deletes()
	rapid.Check(t, func(t *rapid.T) {
		ref := rapid.StringMatching(`refs/(heads|tags)/(agent/|release/|)(alice|bob|main|mine|1)(/x)?`).Draw(t, "ref")
		allowed, refused, err := j.Split(t.Context(), []api.RemoteUpdate{{Ref: ref}})
		require.NoError(t, err)
		require.Equal(t, 1, len(allowed)+len(refused))
		release, _ := path.Match("refs/heads/release/*", ref)
		require.Equal(t, ref == "refs/heads/agent/alice" || ref == "refs/tags/mine" || release, len(allowed) == 1, ref)
	})
}
