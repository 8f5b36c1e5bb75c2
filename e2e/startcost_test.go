package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// gits returns the git commands that polisd logged since the given position of its log, without those
// of the follower of branches, which runs later, and of the status that polisctl shows.
func (d *daemon) gits(since int64) []string {
	d.t.Helper()
	text, err := os.ReadFile(d.path("polisd.log"))
	require.NoError(d.t, err)
	var out []string
	for _, line := range strings.Split(string(text[since:]), "\n") {
		_, op, ok := strings.Cut(line, "msg=git op=")
		if op = strings.TrimPrefix(op, `"`); ok && !strings.HasPrefix(op, "for-each-ref ") && !strings.HasPrefix(op, "merge-base ") {
			out = append(out, op[:min(len(op), 120)])
		}
	}
	return out
}

// TestAStartNeedsFewGits bounds the git processes of new agents whose base tree exists: each takes a few
// milliseconds of a processor, which is most of what polisd itself does for them.
func TestAStartNeedsFewGits(t *testing.T) {
	d := layered(t, options{})
	git(t, d.path("src"), "config", "user.name", "Ann") // else the owner's own configuration is read
	git(t, d.path("src"), "config", "user.email", "ann@example.com")
	d.add("ann")
	for _, c := range []struct {
		name string
		args []string
		most int
	}{
		{"add", []string{"agents", "add", "bob", "--base", "custom"}, 9}, // one finds the LFS objects of the project, one its hooks, one its new refs, one its submodules
		{"reader", []string{"agents", "add", "rita", "--base", "custom", "--read-only"}, 7},
		{"fork", []string{"agents", "fork", "ann", "fay"}, 9},
	} {
		fi, err := os.Stat(d.path("polisd.log"))
		require.NoError(t, err)
		d.must(c.args...)
		got := d.gits(fi.Size())
		require.NotEmpty(t, got, c.name)
		require.LessOrEqual(t, len(got), c.most, "%s: %s", c.name, strings.Join(got, "\n"))
	}
}
