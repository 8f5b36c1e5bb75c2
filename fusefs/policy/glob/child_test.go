package glob

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// If a pattern covers a file, Children of the file's directory reports it.
func TestChildrenMissNoFileThatThePatternCovers(t *testing.T) {
	part := rapid.SampledFrom([]string{"a", "b", "*", "**", "a*", "?", "[ab]"})
	rapid.Check(t, func(t *rapid.T) {
		source := ""
		if rapid.Bool().Draw(t, "anchored") {
			source = "/"
		}
		for i, s := range rapid.SliceOfN(part, 1, 4).Draw(t, "pattern") {
			if i > 0 {
				source += "/"
			}
			source += s
		}
		if rapid.Bool().Draw(t, "directories") {
			source += "/"
		}
		p, err := Compile(source)
		require.NoError(t, err)
		dir := ""
		for _, s := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab"}), 0, 4).Draw(t, "dir") {
			if dir != "" {
				dir += "/"
			}
			dir += s
		}
		name := rapid.SampledFrom([]string{"a", "b", "ab", "c"}).Draw(t, "name")
		path := name
		if dir != "" {
			path = dir + "/" + name
		}
		literal, all, some := p.Children(dir)
		if p.Covers(path, false) {
			require.True(t, all || some && literal == name, "%q in %q: %q", source, dir, literal)
		}
		require.False(t, all && !some)
	})
}
