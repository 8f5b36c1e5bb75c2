package netbridge

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSmoke(t *testing.T) {
	b := newBridge(t)
	ep, ns := ensure(t, b, "claude")
	l, err := ns.Listen(t.Context(), "tcp", "127.0.0.1:3000")
	require.NoError(t, err)
	defer l.Close()
	ls, err := ns.Listeners(t.Context())
	require.NoError(t, err)
	t.Log(ep, ls)
	list, err := b.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"claude"}, list)
	c, err := ns.Dial(t.Context(), "tcp", "127.0.0.1:3000")
	require.NoError(t, err)
	c.Close()
	require.NoError(t, b.Remove(t.Context(), "claude"))
}
