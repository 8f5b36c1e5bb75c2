package view

import (
	"context"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/fusefs"
	"polis/fusefs/policy"
)

// TestEarlierVersionsFollowTheRulesOfNow: what the view would refuse or hide is refused or hidden, no approval is requested, and
// it is counted and reported as in the view.
func TestEarlierVersionsFollowTheRulesOfNow(t *testing.T) {
	g := newGuard(t, policy.Rules{Read: []string{"**"}, Write: []string{"**"}, Deny: []string{"denied"}, Hide: []string{"hidden/**"}, Ask: []string{"asked"}}, func(c *Config) {
		c.Asker = askerFunc(func(context.Context, Request) (Verdict, error) { panic("an approval is requested") })
	})
	s := Stored{g.Guard}
	for path, want := range map[string]syscall.Errno{"plain": 0, "denied": syscall.EACCES, "hidden/file": syscall.ENOENT, "asked": syscall.EACCES, "a/../b": syscall.EACCES} {
		require.Equal(t, want, s.Read(1, false, path), path)
		require.Equal(t, want, s.Read(1, true, path), path)
		require.Equal(t, want != 0, s.Forbidden(path), path)
		if path != "asked" {
			require.Equal(t, g.Read(t.Context(), fusefs.Caller{}, fusefs.OpOpenRead, path), s.Read(1, false, path), path)
		}
	}
	require.False(t, s.Visible("hidden/file", false))
	require.Positive(t, s.Stats().ReadCount)
	require.Positive(t, s.Stats().ReadDenied)
	codes := map[string]bool{}
	for _, d := range g.denials {
		codes[d.Code+" "+d.Path] = true
	}
	require.Subset(t, codes, map[string]bool{CodeUndeclaredRead + " denied": true, CodeNotApproved + " asked": true})
	set, err := policy.Compile(policy.Rules{Read: []string{"denied"}})
	require.NoError(t, err)
	g.SetPolicy(set)
	require.Zero(t, s.Read(1, false, "denied"))
	require.True(t, s.Forbidden("plain"))
}
