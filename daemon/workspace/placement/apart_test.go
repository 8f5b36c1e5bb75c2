package placement

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPathThatIsApartFromTheDirectoriesOfPolis(t *testing.T) {
	top := t.TempDir()
	real, link := filepath.Join(top, "real"), filepath.Join(top, "link")
	require.NoError(t, os.Mkdir(real, 0o755))
	require.NoError(t, os.Symlink(real, link))
	for path, want := range map[string]bool{
		"/mnt": true, "/mnt/before": true, top + "/real2": true, top + "/linked": true,
		"": false, "/": false, "mnt": false, "/mnt/": false, "/mnt/../mnt": false, "/" + strings.Repeat("a", maxPath): false,
		link: false, link + "/x": false, real: false, real + "/x/y": false, top: false, filepath.Dir(top): false, "/gone": false, "/gone/x": false,
	} {
		require.Equal(t, want, Apart(path, []string{link, "/gone"}), path)
	}
}
