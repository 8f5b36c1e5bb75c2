package view

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/fusefs"
	"polis/fusefs/policy"
)

// A read-only view refuses every change of every path, also where a rule allows it, asks no person
// and takes no lease. Rules for reading apply.
func TestAReadOnlyViewRefusesEveryChange(t *testing.T) {
	g := newGuard(t, policy.Rules{Write: []string{"w"}, Ask: []string{"k"}, Hide: []string{"h"}}, func(c *Config) { c.ReadOnly = true })
	for _, path := range []string{"w/x", "k/x", "h/x", "u/x", ".git", ""} {
		for _, op := range writeOps {
			tk, errno := g.Write(t.Context(), caller, op, file(path))
			require.Equal(t, syscall.EROFS, errno, "%s %q", op, path)
			require.Nil(t, tk)
		}
	}
	_, errno := g.Write(t.Context(), caller, fusefs.OpRename, file("w/x"), file("w/y"))
	require.Equal(t, syscall.EROFS, errno)
	_, errno = g.Write(t.Context(), caller, fusefs.OpMkdir)
	require.Equal(t, syscall.EROFS, errno)
	require.Empty(t, g.book.reqs)
	require.Equal(t, CodeReadOnly, g.denials[0].Code)
	require.Equal(t, "EROFS", g.denials[0].Errno)
	require.NotEmpty(t, g.denials[0].Hint)
	require.NotZero(t, g.CachedVerdict("w/x", false)&fusefs.Unwritable)
	require.Zero(t, g.Read(t.Context(), caller, fusefs.OpOpenRead, "w/x"))
	require.Equal(t, syscall.ENOENT, g.Read(t.Context(), caller, fusefs.OpOpenRead, "h/x"))
}
