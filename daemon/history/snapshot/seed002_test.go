package snapshot

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestSeed002_Q3_SnapshotDeterminism: Snapshot(w) = Snapshot(w), also after the files were read, and their
// times were changed.
func TestSeed002_Q3_SnapshotDeterminism(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "snapshot")
		require.NoError(t, err)
		defer os.RemoveAll(dir)
		create(t, dir, trees().Draw(t, "tree"), 1)
		first := scan(t, dir, Hashes{})
		require.NoError(t, filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				err = os.Chtimes(p, time.Unix(1, 0), time.Unix(2, 0))
			}
			return err
		}))
		for range 2 {
			require.Equal(t, first.Content(), scan(t, dir, Hashes{}).Content())
			require.Equal(t, first.Metadata(), scan(t, dir, Hashes{}).Metadata())
		}
	})
}

// TestSeed002_Theorem2_SnapshotsAreDeterministic: the hash is SHA256("path1:hash1\npath2:hash2\n...") of the
// files in byte order, computed here by another program than the package.
func TestSeed002_Theorem2_SnapshotsAreDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := trees().Draw(t, "tree")
		var lines []string
		for path, o := range tree {
			if strings.ContainsAny(path, ":\n\\") || !utf8.ValidString(path) {
				t.Skip("such names are escaped: TestNoNameLooksLikeTwoFiles")
			}
			if o.kind == File {
				lines = append(lines, fmt.Sprintf("%s:%x\n", path, sha256.Sum256([]byte(o.content))))
			}
		}
		sort.Slice(lines, func(i, j int) bool {
			return lines[i][:strings.IndexByte(lines[i], ':')] < lines[j][:strings.IndexByte(lines[j], ':')]
		})
		want := fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(lines, ""))))
		for i := range 2 {
			dir, err := os.MkdirTemp("", "snapshot")
			require.NoError(t, err)
			defer os.RemoveAll(dir)
			create(t, dir, tree, uint64(i))
			require.Equal(t, want, scan(t, dir, Hashes{}).Content().String())
		}
	})
}
