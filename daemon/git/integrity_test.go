package git

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A missing or unreadable object of the branch is damage; one that only another branch
// leads to, a HEAD of a worktree that names nothing, and a bound are not.
func TestCheckFindsWhatIsMissing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r.git")
	_, err := self().Run(t.Context(), Cmd{Args: []string{"init", "-q", "--bare", dir}, Write: []string{filepath.Dir(dir)}})
	require.NoError(t, err)
	r := Repo{Runner: self(), Dir: dir}
	var in bytes.Buffer
	for i := range 3 {
		fmt.Fprintf(&in, "commit refs/heads/main\nmark :%d\ncommitter a <a@b> %d +0000\ndata 0\n", i+1, i)
		fmt.Fprintf(&in, "M 100644 inline d/file\ndata 2\n%d\n\n", i)
	}
	fmt.Fprint(&in, "commit refs/heads/other\ncommitter a <a@b> 9 +0000\ndata 0\nfrom :3\nM 100644 inline o/file\ndata 6\nother\n\n")
	_, err = r.Do(t.Context(), Cmd{Args: []string{"fast-import", "--quiet"}, Stdin: &in, Config: []string{"fastimport.unpackLimit=1000"}, Children: true})
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "worktrees", "a"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "worktrees", "a", "HEAD"), []byte("0123456789012345678901234567890123456789\n"), 0o644))

	check := func(history bool) error { return r.Check(t.Context(), "refs/heads/main", history, time.Minute) }
	require.NoError(t, check(false))
	require.NoError(t, check(true))
	for name, c := range map[string]struct {
		object       string
		tip, history bool // damage
	}{
		"tip commit":     {"main", true, true},
		"tip tree":       {"main^{tree}", true, true},
		"tree below":     {"main:d", true, true},
		"file":           {"main:d/file", true, true},
		"earlier commit": {"main^", false, true},
		"earlier tree":   {"main~2:d", false, true},
		"earlier file":   {"main~2:d/file", false, true},
		"other branch's": {"other:o/file", false, false},
	} {
		oid, err := r.Line(t.Context(), "rev-parse", c.object)
		require.NoError(t, err)
		path := filepath.Join(dir, "objects", oid[:2], oid[2:])
		whole, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.Remove(path))
		for _, how := range []string{"missing", "cut"} {
			if how == "cut" {
				if name == "file" || name == "earlier file" { // whose content is not read
					continue
				}
				require.NoError(t, os.WriteFile(path, whole[:len(whole)/2], 0o444))
			}
			for history, damage := range map[bool]bool{false: c.tip, true: c.history} {
				err := check(history)
				if damage {
					require.ErrorIs(t, err, ErrDamaged, "%s %s, history %v", name, how, history)
				} else {
					require.NoError(t, err, "%s %s, history %v", name, how, history)
				}
			}
		}
		require.NoError(t, os.RemoveAll(path))
		require.NoError(t, os.WriteFile(path, whole, 0o444))
	}
	require.NoError(t, check(true))
	err = r.Check(t.Context(), "refs/heads/main", true, time.Nanosecond)
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrDamaged)
}
