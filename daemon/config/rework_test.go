package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestRework(t *testing.T) {
	c, err := Parse("[merge]\nrework = \"new\"\n[merge.workspaces.w]\nrework = \"none\"\n[merge.workspaces.v]\nbatch = 1\n")
	require.NoError(t, err)
	require.Equal(t, api.ReworkNone, *c.MergeRules("w").Rework)
	require.Equal(t, api.ReworkNew, *c.MergeRules("v").Rework)
	d := Default()
	require.Equal(t, api.ReworkOffer, *d.MergeRules("w").Rework)
	_, err = Parse("[merge]\nrework = \"always\"\n")
	require.ErrorContains(t, err, `merge.rework = "always": must be none, offer, new or same`)
}
