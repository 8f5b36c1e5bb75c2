package upper_test

import (
	"crypto/sha512"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/fusefs"
	"polis/fusefs/overlay"
	"polis/fusefs/shared"
)

// storedIn gives a view a store of packages that other views have, too.
func storedIn(t testing.TB, store string) func(*asked, *fusefs.Config) {
	return func(g *asked, c *fusefs.Config) {
		s, err := shared.OpenStore(store)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		c.Roots = append(c.Roots, dirFD(t, t.TempDir()))
		c.Shared = &overlay.Shared{Lower: -1, Stage: dirFD(t, t.TempDir()), Store: s, StoreRoot: 1}
		g.route = func(path string) int {
			if path == shared.StoreName || strings.HasPrefix(path, shared.StoreName+"/") {
				return 1
			}
			return 0
		}
	}
}

// A file of the package store that has its content in common with other agents' is linked by installers. The
// overlay requires that the link is the inode that was linked, and the kernel warns if it is not.
func TestALinkToSharedContentIsTheInodeThatWasLinked(t *testing.T) {
	const package_ = "module.exports = 1\n"
	sum := sha512.Sum512([]byte(package_))
	hash := hex.EncodeToString(sum[:])
	stored := shared.StoreName + "/v10/files/" + hash[:2] + "/" + hash[2:]
	store := filepath.Join(t.TempDir(), "store")
	var numbers []uint64
	for range 2 {
		s := mount(t, map[string]string{"gone": "base\n", "a": "base\n"}, storedIn(t, store))
		require.NoError(t, os.MkdirAll(filepath.Dir(s.in(stored)), 0o755))
		require.NoError(t, os.WriteFile(s.in(stored), []byte(package_), 0o644))
		require.NoError(t, os.Mkdir(s.in("node_modules"), 0o755))
		require.NoError(t, os.Remove(s.in("gone")))
		for _, name := range []string{"node_modules/one.js", "node_modules/two.js", "gone"} {
			require.NoError(t, os.Link(s.in(stored), s.in(name)), name)
			require.Equal(t, package_, text(t, s.in(name)))
			st, err := os.Stat(s.in(name))
			require.NoError(t, err)
			numbers = append(numbers, inodeOf(st))
		}
		// A change through one name reaches no other one, and no other agent.
		require.NoError(t, os.WriteFile(s.in("node_modules/one.js"), []byte("mine\n"), 0o644))
		require.Equal(t, "mine\n", text(t, s.in("node_modules/one.js")))
		require.Equal(t, package_, text(t, s.in("node_modules/two.js")))
		require.Equal(t, package_, text(t, s.in(stored)))
		require.NoError(t, os.Rename(s.in("node_modules/two.js"), s.in("node_modules/three.js")))
		require.NoError(t, os.Remove(s.in(stored)))
		require.Equal(t, package_, text(t, s.in("node_modules/three.js")))
		require.Equal(t, package_, text(t, s.in("gone")))
		require.NoError(t, os.Remove(s.in("gone")))
	}
	for _, n := range numbers {
		require.Equal(t, numbers[0], n, "one inode on the disk")
	}
}
