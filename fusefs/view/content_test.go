package view

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/fusefs"
	"polis/fusefs/policy"
)

// TestWhatIsOnlyTheContentOfAFile: an edit in place, and one that is written aside. What makes, moves, removes or links
// anything else is more than that.
func TestWhatIsOnlyTheContentOfAFile(t *testing.T) {
	const temp = "d/f.tmp.12.abcdef012345"
	regular := func(path string) fusefs.Target { return fusefs.Target{Path: path, File: true} }
	for _, c := range []struct {
		name    string
		op      fusefs.Op
		targets []fusefs.Target
		want    bool
	}{
		{"written", fusefs.OpOpenWrite, []fusefs.Target{file("d/f")}, true},
		{"made", fusefs.OpCreate, []fusefs.Target{file("d/f")}, true},
		{"made aside", fusefs.OpCreate, []fusefs.Target{file(temp)}, true},
		{"shortened", fusefs.OpSetattr, []fusefs.Target{file("d/f")}, true},
		{"renamed into its place", fusefs.OpRename, []fusefs.Target{regular(temp), file("d/f")}, true},
		{"renamed from a name without a rule", fusefs.OpRename, []fusefs.Target{regular("free"), file("d/f")}, true},
		{"a link is renamed into its place", fusefs.OpRename, []fusefs.Target{file(temp), file("d/f")}, false},
		{"renamed to a temporary name", fusefs.OpRename, []fusefs.Target{regular("d/f"), file(temp)}, false},
		{"renamed away", fusefs.OpRename, []fusefs.Target{regular("d/f"), file("free")}, false},
		{"renamed to another with the rule", fusefs.OpRename, []fusefs.Target{regular("d/f"), file("d/g")}, false},
		{"another is renamed into its place", fusefs.OpRename, []fusefs.Target{regular("d/g"), file("d/f")}, false},
		{"exchanged", fusefs.OpExchange, []fusefs.Target{regular("d/f"), file("free")}, false},
		{"it has two names", fusefs.OpOpenWrite, []fusefs.Target{file("d/f"), file("d/g")}, false},
		{"linked", fusefs.OpLink, []fusefs.Target{file("free"), {Path: "d/f", Source: true}}, false},
		{"linked in", fusefs.OpLink, []fusefs.Target{file("d/f"), {Path: "free", Source: true}}, false},
		{"a symbolic link is made", fusefs.OpSymlink, []fusefs.Target{file("d/f")}, false},
		{"a FIFO or a device is made", fusefs.OpMknod, []fusefs.Target{file("d/f")}, false},
		{"removed", fusefs.OpUnlink, []fusefs.Target{file("d/f")}, false},
		{"an attribute is set", fusefs.OpSetxattr, []fusefs.Target{file("d/f")}, false},
		{"a directory is changed", fusefs.OpSetattr, []fusefs.Target{{Path: "d/f", Dir: true}}, false},
		{"a directory is made", fusefs.OpMkdir, []fusefs.Target{{Path: "d/f", Dir: true}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked []Request
			g := newGuard(t, policy.Rules{Write: []string{"**"}, Ask: []string{"d/**"}}, func(cfg *Config) {
				cfg.Tracked = func(string) bool { return false }
				cfg.Asker = askerFunc(func(_ context.Context, r Request) (Verdict, error) {
					asked = append(asked, r)
					return Verdict{Allow: true}, nil
				})
			})
			tk, errno := g.Write(t.Context(), caller, c.op, c.targets...)
			require.Zero(t, errno)
			tk.Done()
			require.Len(t, asked, 1)
			require.Equal(t, c.want, asked[0].Content)
		})
	}
}
