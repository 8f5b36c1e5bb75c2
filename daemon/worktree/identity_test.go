package worktree

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheIdentityOfTheProjectCountsBeforeItsOwners(t *testing.T) {
	needRoot(t)
	dir, home := project(t), tempDir(t)
	p, err := up(t, spec(t, dir)).Project(t.Context())
	require.NoError(t, err)
	identity := func(home string) (name, email string) {
		t.Helper()
		local, err := p.Settings(t.Context())
		require.NoError(t, err)
		return p.Identity(t.Context(), local, home)
	}
	name, email := identity("")
	require.Empty(t, name+email)
	write(t, home+"/.gitconfig", "[user]\n\tname = Owner\n\temail = owner@example.org\n")
	name, email = identity(home)
	require.Equal(t, []string{"Owner", "owner@example.org"}, []string{name, email})
	name, email = identity("relative")
	require.Empty(t, name+email)
	as(t, 0, dir, "config", "user.name", "Project")
	name, email = identity(home)
	require.Equal(t, []string{"Project", "owner@example.org"}, []string{name, email})
}
