package view

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/policy"
)

// leasesOf are the paths for which an operation took leases.
func (v *tempView) leasesOf(do func() error) ([]string, error) {
	v.book.mu.Lock()
	v.book.reqs = nil
	v.book.mu.Unlock()
	err := do()
	v.book.mu.Lock()
	defer v.book.mu.Unlock()
	var all []string
	for _, r := range v.book.reqs {
		all = append(all, r.Paths...)
	}
	return all, err
}

// What is written by the temporary name of a file that was linked changes the file of the other name too: it takes
// the lease of that, also when the view does not know that both are one file.
func TestALinkedTemporaryFileIsWrittenUnderTheLeaseOfItsFile(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"write":    func(p string) error { return os.WriteFile(p, []byte("changed"), 0o644) },
		"truncate": func(p string) error { return os.Truncate(p, 1) },
		"chmod":    func(p string) error { return os.Chmod(p, 0o600) },
		"xattr":    func(p string) error { return unix.Setxattr(p, "user.x", []byte("x"), 0) },
	} {
		t.Run(name, func(t *testing.T) {
			v := newTempView(t, oneFile)
			require.NoError(t, os.WriteFile(v.at("src/n"), []byte("new"), 0o644))
			leases, err := v.leasesOf(func() error { return change(v.at("src/n")) })
			require.NoError(t, err)
			require.Empty(t, leases)
			require.NoError(t, os.Remove(v.at("src/f")))
			require.NoError(t, os.Link(v.at("src/n"), v.at("src/f")))
			for range 2 {
				leases, err = v.leasesOf(func() error { return change(v.at("src/n")) })
				require.NoError(t, err)
				require.Contains(t, leases, "src/f")
				v.again()
			}
			// The file gets another name, which the view does not know either.
			require.NoError(t, os.Remove(v.at("src/g")))
			require.NoError(t, os.Rename(v.at("src/f"), v.at("src/g")))
			v.again()
			leases, err = v.leasesOf(func() error { return change(v.at("src/n")) })
			if err == nil {
				require.Contains(t, leases, "src/g")
			}
			v.again()
			_, err = os.Stat(v.at("src/g"))
			require.NoError(t, err)
			leases, err = v.leasesOf(func() error { return change(v.at("src/n")) })
			require.NoError(t, err)
			require.Contains(t, leases, "src/g")
			// What is not a name of the file any more is none that counts.
			require.NoError(t, os.Remove(v.at("src/g")))
			leases, err = v.leasesOf(func() error { return change(v.at("src/n")) })
			require.NoError(t, err)
			require.Empty(t, leases)
		})
	}
}

// Nor is such a file written when the rules forbid that of its file.
func TestALinkedTemporaryFileIsWrittenByTheRulesOfItsFile(t *testing.T) {
	v := newTempView(t, oneFile)
	require.NoError(t, os.WriteFile(v.at("src/n"), []byte("new"), 0o644))
	require.NoError(t, os.Remove(v.at("src/f")))
	require.NoError(t, os.Link(v.at("src/n"), v.at("src/f")))
	v.rules = policy.Rules{Write: []string{"src/g"}}
	v.again()
	require.ErrorIs(t, os.WriteFile(v.at("src/n"), nil, 0o644), unix.EACCES)
	require.ErrorIs(t, os.Chmod(v.at("src/n"), 0o600), unix.EACCES)
}
