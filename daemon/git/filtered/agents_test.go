package filtered

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestStoresInUse(t *testing.T) {
	rules, set, err := Reading(api.Policy{Deny: []string{"s/**"}}, []string{"{name}.swp"})
	require.NoError(t, err)
	require.False(t, set.AllReadable())
	require.Equal(t, []string{"{name}.swp"}, rules.Temp)
	want, err := Key(rules)
	require.NoError(t, err)

	keys, known, err := InUse([]api.Policy{{}, {Deny: []string{"s/**"}}}, []string{"{name}.swp"})
	require.NoError(t, err)
	require.True(t, known)
	require.Equal(t, []string{want}, keys, "an agent that reads everything has no store")

	bad := api.Policy{Deny: []string{"a/[b"}}
	_, _, err = Reading(bad, nil)
	require.Equal(t, api.CodeBadRequest, api.CodeOf(err))
	_, known, err = InUse([]api.Policy{{Deny: []string{"s/**"}}, bad}, nil)
	require.NoError(t, err)
	require.False(t, known, "rules that do not compile: no store may be removed")
}

func TestAnswersAreBroughtUpToTheRefs(t *testing.T) {
	r, k := bed(t)
	r.commit("main", map[string]string{"p": "y"})
	key, err := k.Ensure(t.Context(), noSecrets)
	require.NoError(t, err)
	r.commit("main", map[string]string{"p": "later", "s/k": "secret"})
	got, err := k.Answer(t.Context(), "a", key, []string{blob("later"), blob("secret"), "no-id"})
	require.NoError(t, err)
	require.Equal(t, map[string]string{blob("secret"): "s/k"}, got)

	many := make([]string, maxMissing+9)
	for i := range many {
		many[i] = fmt.Sprintf("%040x", i+1)
	}
	got, err = k.Answer(t.Context(), "a", key, many)
	require.NoError(t, err)
	require.Len(t, got, maxMissing)
	_, err = k.Answer(t.Context(), "a", "none", nil)
	require.Equal(t, api.CodeUnavailable, api.CodeOf(err))
}

// Work that is withheld nowhere is restored; the refusal of other work is tested in e2e.
func TestSavedWorkIsJudgedBeforeItIsRestored(t *testing.T) {
	r, k := bed(t)
	r.commit("main", map[string]string{"s/k": "x", "p": "y"})
	internal := open(t, t.TempDir())
	internal.git("", "update-ref", "refs/polis/trash/a", internal.commit("saved", map[string]string{"s/k": "x", "p": "new"}))
	require.NoError(t, k.CheckSaved(t.Context(), "a", noSecrets, internal.repo, "refs/polis/trash/a"))
	err := k.CheckSaved(t.Context(), "a", noSecrets, internal.repo, "refs/polis/trash/none")
	require.Equal(t, api.CodeWorktreeFailed, api.CodeOf(err))
}
