package layout

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatIsBelowADirectory(t *testing.T) {
	for _, c := range []struct {
		path, dir string
		below     bool
	}{
		{"/a/b", "/a/b", true}, {"/a/b/c", "/a/b", true}, {"/a/bc", "/a/b", false}, {"/a", "/a/b", false}, {"/a", "/", true}, {"/", "/", true}, {"/a/b/c", "/a/b/", true},
	} {
		require.Equal(t, c.below, Below(c.path, c.dir), "%s in %s", c.path, c.dir)
	}
}
