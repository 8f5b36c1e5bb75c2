package policy

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestAllReadable(t *testing.T) {
	for _, c := range []struct {
		name  string
		rules Rules
		want  bool
	}{
		{"no rules", Rules{}, true},
		{"only write rules", Rules{Write: []string{"src/**"}}, true},
		{"everything is read", Rules{Read: []string{"**"}, Write: []string{"src/**"}}, true},
		{"a pattern more changes nothing", Rules{Read: []string{"**", "src/a"}}, true},
		{"something is negated", Rules{Read: []string{"**", "!src/a"}}, false},
		{"some is read", Rules{Read: []string{"src/**"}}, false},
		{"deny", Rules{Deny: []string{"x"}}, false},
		{"hide", Rules{Hide: []string{"x"}}, false},
		{"ask", Rules{Ask: []string{"x"}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Compile(c.rules)
			require.NoError(t, err)
			require.Equal(t, c.want, s.AllReadable())
		})
	}
}

func TestNothingReadable(t *testing.T) {
	for _, c := range []struct {
		name, dir string
		rules     Rules
		want      bool
	}{
		{"no rules", "a", Rules{}, false},
		{"a directory is denied", "a", Rules{Deny: []string{"a/**", "**/*.pem"}}, true},
		{"a directory above is denied", "a/b", Rules{Deny: []string{"a/"}}, true},
		{"another one is", "b", Rules{Deny: []string{"a/"}}, false},
		{"something is negated", "a", Rules{Deny: []string{"a/**", "!a/b"}}, false},
		{"hidden or asked for", "a", Rules{Hide: []string{"b/"}, Ask: []string{"/a"}}, true},
		{"not declared", "b", Rules{Read: []string{"a/**"}}, true},
		{"on the way to what is declared", "b", Rules{Read: []string{"b/c/d"}}, false},
		{"write is read", "b", Rules{Read: []string{"a/**"}, Write: []string{"b/**"}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Compile(c.rules)
			require.NoError(t, err)
			require.Equal(t, c.want, s.NothingReadable(c.dir))
		})
	}
}

// What is certain of all files holds for each.
func TestWhatHoldsForAllFilesHoldsForEach(t *testing.T) {
	globs := rapid.SliceOfN(rapid.StringMatching(`!?/?(\*\*/)?[ab*?](/[abc]|/\*\*|/\*\.a)?/?`), 0, 3)
	paths := rapid.StringMatching(`[abc](/[abc]{1,3}){0,3}`)
	rapid.Check(t, func(t *rapid.T) {
		s, err := Compile(Rules{Read: globs.Draw(t, "read"), Write: globs.Draw(t, "write"), Deny: globs.Draw(t, "deny"), Hide: globs.Draw(t, "hide"), Ask: globs.Draw(t, "ask")})
		if err != nil {
			t.Skip(err)
		}
		dir, below := paths.Draw(t, "dir"), paths.Draw(t, "below")
		path := dir + "/" + below
		read := s.DecideThrough(path, false).Read == Allow
		if s.AllReadable() {
			require.True(t, read, path)
		}
		if s.NothingReadable(dir) {
			require.False(t, read, path)
		}
	})
}
