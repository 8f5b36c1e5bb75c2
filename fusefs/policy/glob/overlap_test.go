package glob

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestOverlap(t *testing.T) {
	for _, c := range []struct {
		p, q string
		want bool
	}{
		{"src/**", "src/a.go", true},
		{"src/**", "docs/**", false},
		{"src", "src/a/b", true},
		{"src/a", "src/b", false},
		{"*.go", "src/**", true},
		{"*.go", "*.md", true}, // a.go/b.md
		{"*.go", "main.*", true},
		{"src/*.go", "src/*.md", false},
		{"**/test/**", "src/**", true},
		{"/a/*/c", "a/b/*", true},
		{"a/[bc]", "a/[cd]", true},
		{"a/[bc]x", "a/[de]x", false},
		{"a?c", "a/b", true}, // a name "abc" at any depth, also below a/b
		{"/a?c", "a/b", false},
		{"/x*y", "/x*z", false},
		{"x*y*", "*yz", true},
		{"/integrations/agent-5/", "integrations/agent-6/**", false},
	} {
		p, err := Compile(c.p)
		require.NoError(t, err)
		q, err := Compile(c.q)
		require.NoError(t, err)
		require.Equal(t, c.want, Overlap(p, q), "%s and %s", c.p, c.q)
		require.Equal(t, c.want, Overlap(q, p), "%s and %s", c.q, c.p)
	}
}

func TestContains(t *testing.T) {
	for _, c := range []struct {
		p, q string
		want bool
	}{
		{"src/**", "src/a.go", true},
		{"src/**", "src/**", true},
		{"src/**", "src", false}, // src may be a file
		{"src", "src/lib/**", true},
		{"src/lib/**", "src/**", false},
		{"src/", "src", false},
		{"*.go", "src/a.go", true},
		{"*.go", "src/**", false},
		{"src/**", "*.go", false},
	} {
		p, err := Compile(c.p)
		require.NoError(t, err)
		q, err := Compile(c.q)
		require.NoError(t, err)
		require.Equal(t, c.want, Contains(p, q), "%s in %s", c.q, c.p)
	}
}

// Two patterns that cover one path overlap; one that contains another covers
// whatever that covers.
func TestOverlapAndContainsAgreeWithCovers(t *testing.T) {
	seg := rapid.SampledFrom([]string{"a", "b", "ab", "*", "**", "a*", "*b", "?", "[ab]", "a?", "*a*"})
	name := rapid.SampledFrom([]string{"a", "b", "ab", "ba", "aab", "bb"})
	rapid.Check(t, func(t *rapid.T) {
		gen := func(label string) *Pattern {
			s := strings.Join(rapid.SliceOfN(seg, 1, 4).Draw(t, label), "/")
			if rapid.Bool().Draw(t, label+" anchored") {
				s = "/" + s
			}
			p, err := Compile(s)
			if err != nil {
				t.Skip(err)
			}
			return p
		}
		p, q := gen("p"), gen("q")
		path := strings.Join(rapid.SliceOfN(name, 1, 5).Draw(t, "path"), "/")
		inP, inQ := p.Covers(path, false), q.Covers(path, false)
		if inP && inQ && !Overlap(p, q) {
			t.Fatalf("%s is covered by %s and %s, which should not overlap", path, p, q)
		}
		if inQ && Contains(p, q) && !p.CoversTree(path, false) {
			t.Fatalf("%s is covered by %s and not by %s, which should contain it", path, q, p)
		}
	})
}
