package upper_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// Files of the base that are removed can be made again while other programs list and stat them.
func TestFilesAreMadeAgainBesideReaders(t *testing.T) {
	files := map[string]string{}
	for i := range 200 {
		files[fmt.Sprintf("d/f%d", i)] = "base\n"
	}
	s := mount(t, files)
	done := make(chan struct{})
	var readers errgroup.Group
	for range 2 {
		readers.Go(func() error {
			for {
				select {
				case <-done:
					return nil
				default:
				}
				entries, err := os.ReadDir(s.in("d"))
				if err != nil {
					return err
				}
				for _, e := range entries {
					_, _ = os.ReadFile(s.in(filepath.Join("d", e.Name()))) //nolint:errcheck // it may be gone
				}
			}
		})
	}
	for round := range 5 {
		for name := range files {
			require.NoError(t, os.Remove(s.in(name)), "round %d", round)
		}
		for name := range files {
			f, err := os.OpenFile(s.in(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
			require.NoError(t, err, "round %d", round)
			_, err = f.WriteString("mine\n")
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}
	}
	close(done)
	require.NoError(t, readers.Wait())
	for name := range files {
		require.Equal(t, "mine\n", text(t, s.in(name)))
	}
}
