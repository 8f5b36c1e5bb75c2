package filtered

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// index records what was made of it. withheld are those of paths that git skips.
type index struct {
	paths     []string
	published []string
	withheld  []string
	settled   []string
	err       error
}

func (i *index) Sparse(published string) (bool, error) {
	i.published = append(i.published, published)
	return published != "", i.err
}

func (i *index) Settle(_ context.Context, asked func(string) bool) error {
	for _, p := range i.paths {
		if asked(p) {
			i.settled = append(i.settled, p)
		}
	}
	return nil
}

func (i *index) Withhold(_ context.Context, _ string, withheld func(string) bool) error {
	for _, p := range i.paths {
		if withheld(p) {
			i.withheld = append(i.withheld, p)
		}
	}
	return nil
}

func TestAnAgentGetsWhatItsRulesLeave(t *testing.T) {
	_, k := bed(t)
	all := api.Policy{Read: []string{"**"}}
	i := &index{paths: []string{"a", "s/key"}}
	key, err := k.Withhold(t.Context(), "alice", all, nil, "/published", i)
	require.NoError(t, err)
	require.Empty(t, key)
	require.Equal(t, []string{""}, i.published, "it gets the shared objects")
	require.Empty(t, i.withheld)

	some := api.Policy{Read: []string{"**"}, Deny: []string{"s/**"}}
	i = &index{paths: []string{"a", "s/key"}}
	key, err = k.Withhold(t.Context(), "alice", some, nil, "/published", i)
	require.NoError(t, err)
	require.DirExists(t, k.Objects(key))
	require.Equal(t, []string{"/published"}, i.published)
	require.Equal(t, []string{"s/key"}, i.withheld)

	// What may be asked for is not withheld.
	ask := api.Policy{Write: []string{"**"}, Deny: []string{"s/**"}, Ask: []string{"a", "s/**"}}
	i = &index{paths: []string{"a", "s/key", "b"}}
	_, err = k.Withhold(t.Context(), "alice", ask, nil, "/published", i)
	require.NoError(t, err)
	require.Equal(t, []string{"s/key"}, i.withheld)
	require.Equal(t, []string{"a"}, i.settled)

	broken := &index{err: errors.New("read-only file system"), paths: i.paths}
	_, err = k.Withhold(t.Context(), "alice", some, nil, "/published", broken)
	require.Equal(t, api.CodeWorktreeFailed, api.CodeOf(err))
	require.Empty(t, broken.withheld)
	_, err = k.Withhold(t.Context(), "alice", api.Policy{Read: []string{"["}}, nil, "/published", &index{})
	require.Equal(t, api.CodeBadRequest, api.CodeOf(err), "rules that do not compile give nothing")

	require.NoError(t, k.SweepUnused(t.Context(), []api.Policy{all, some}, nil, nil))
	require.DirExists(t, k.Objects(key))
	require.NoError(t, k.SweepUnused(t.Context(), []api.Policy{all}, nil, []string{key}))
	require.DirExists(t, k.Objects(key), "an agent runs with it")
	require.NoError(t, k.SweepUnused(t.Context(), []api.Policy{{Read: []string{"["}}}, nil, nil))
	require.DirExists(t, k.Objects(key), "it is not known what is used")
	require.NoError(t, k.SweepUnused(t.Context(), []api.Policy{all}, nil, nil))
	_, err = os.Stat(k.Objects(key))
	require.ErrorIs(t, err, os.ErrNotExist)
}
