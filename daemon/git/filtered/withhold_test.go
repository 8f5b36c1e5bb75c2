package filtered

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/rules/cone"
)

// index records what was made of it. withheld are those of paths that git skips.
type index struct {
	paths     []string
	published []string
	withheld  []string
	settled   []string
	err       error
}

func (i *index) Patterned() bool {
	return len(i.published) > 0 && i.published[len(i.published)-1] != ""
}

func (i *index) Sparse(patterns string) error {
	i.published = append(i.published, patterns)
	return i.err
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
	key, err := k.Withhold(t.Context(), "alice", all, nil, "/published", nil, i)
	require.NoError(t, err)
	require.Empty(t, key)
	require.Equal(t, []string{""}, i.published, "it gets the shared objects")
	require.Empty(t, i.withheld)

	some := api.Policy{Read: []string{"**"}, Deny: []string{"s/**"}}
	i = &index{paths: []string{"a", "s/key"}}
	key, err = k.Withhold(t.Context(), "alice", some, nil, "/published", nil, i)
	require.NoError(t, err)
	require.DirExists(t, k.Objects(key))
	require.Equal(t, []string{"/published/info/sparse-checkout"}, i.published)
	require.Equal(t, []string{"s/key"}, i.withheld)

	// What may be asked for is not withheld.
	ask := api.Policy{Write: []string{"**"}, Deny: []string{"s/**"}, Ask: []string{"a", "s/**"}}
	i = &index{paths: []string{"a", "s/key", "b"}}
	_, err = k.Withhold(t.Context(), "alice", ask, nil, "/published", nil, i)
	require.NoError(t, err)
	require.Equal(t, []string{"s/key"}, i.withheld)
	require.Equal(t, []string{"a"}, i.settled)

	broken := &index{err: errors.New("read-only file system"), paths: i.paths}
	_, err = k.Withhold(t.Context(), "alice", some, nil, "/published", nil, broken)
	require.Equal(t, api.CodeWorktreeFailed, api.CodeOf(err))
	require.Empty(t, broken.withheld)
	_, err = k.Withhold(t.Context(), "alice", api.Policy{Read: []string{"["}}, nil, "/published", nil, &index{})
	require.Equal(t, api.CodeBadRequest, api.CodeOf(err), "rules that do not compile give nothing")

	require.NoError(t, k.SweepUnused(t.Context(), []api.Policy{all, some}, nil, nil, nil))
	require.DirExists(t, k.Objects(key))
	require.NoError(t, k.SweepUnused(t.Context(), []api.Policy{all}, nil, []string{key}, nil))
	require.DirExists(t, k.Objects(key), "an agent runs with it")
	require.NoError(t, k.SweepUnused(t.Context(), []api.Policy{{Read: []string{"["}}}, nil, nil, nil))
	require.DirExists(t, k.Objects(key), "it is not known what is used")
	require.NoError(t, k.SweepUnused(t.Context(), []api.Policy{all}, nil, nil, nil))
	_, err = os.Stat(k.Objects(key))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestPatternsOfASparseCheckoutFollowWhatIsWithheld(t *testing.T) {
	r, k := bed(t)
	r.commit("main", map[string]string{"a/f": "1", "a/key": "2", "b/f": "3"})
	c, err := cone.New("a")
	require.NoError(t, err)
	rules := api.Policy{Read: []string{"**"}, Deny: []string{"a/key*"}}
	i := &index{}
	key, err := k.Withhold(t.Context(), "alice", rules, nil, "/published", &c, i)
	require.NoError(t, err)
	require.Equal(t, []string{"/published/" + SparseName(&c)}, i.published)
	file := filepath.Join(k.Objects(key), SparseName(&c))
	read := func() string {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		return string(text)
	}
	require.Equal(t, "/*\n!/*/\n/a/\n!/a/key\n", read())
	require.Equal(t, "!/a/key\n", k.Patterns(key))
	require.Empty(t, k.Patterns(""))
	r.commit("main", map[string]string{"a/key2": "5"})
	require.NoError(t, k.Update(t.Context(), key))
	require.Equal(t, "/*\n!/*/\n/a/\n!/a/key\n!/a/key2\n", read())

	// A crash left what was there before; what is unused goes.
	require.NoError(t, os.Remove(file))
	require.NoError(t, k.Update(t.Context(), key))
	_, err = k.Withhold(t.Context(), "alice", rules, nil, "/published", &c, i)
	require.NoError(t, err)
	require.Contains(t, read(), "!/a/key2\n")
	require.NoError(t, k.SweepUnused(t.Context(), []api.Policy{rules}, nil, nil, []*cone.Cone{nil, &c}))
	require.FileExists(t, file)
	require.NoError(t, k.SweepUnused(t.Context(), []api.Policy{rules}, nil, nil, nil))
	require.NoFileExists(t, file)
	require.FileExists(t, filepath.Join(k.Objects(key), SparseFile))
}
