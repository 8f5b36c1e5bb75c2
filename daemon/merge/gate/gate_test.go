package gate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/fusefs/policy"
)

func compile(t require.TestingT, r policy.Rules) *policy.Set {
	s, err := policy.Compile(r)
	require.NoError(t, err)
	return s
}

func patterns(t require.TestingT, globs ...string) Patterns {
	p, err := Compile(globs)
	require.NoError(t, err)
	return p
}

func protected(t require.TestingT, globs ...string) Protected {
	p, err := CompileProtected(globs)
	require.NoError(t, err)
	return p
}

func TestJudge(t *testing.T) {
	rules := Rules{
		Policy:    compile(t, policy.Rules{Read: []string{"docs/**", "secret-list"}, Write: []string{"src/**", "*.md", "vendor/", ".github/**"}, Deny: []string{"secrets/**"}, Ask: []string{"src/gen/**"}}),
		Others:    []Claim{{"bob", patterns(t, "src/bob/**", "!src/bob/shared/**")}},
		Protected: protected(t, ".gitattributes", ".github/workflows", "src/hooks/", "!src/hooks/README"),
	}
	file := Change{Old: "100644", New: "100644"}
	link := func(target string) Change { return Change{Old: ModeNone, New: ModeLink, Target: target} }
	for path, c := range map[string]struct {
		change     Change
		undeclared string // part of the reason
		protected  string
	}{
		"src/a.go":                {file, "", ""},
		"src/new":                 {Change{Old: ModeNone, New: "100755"}, "", ""},
		"src/gone":                {Change{Old: "100644", New: ModeNone}, "", ""},
		"other.go":                {file, "no write rule", ""},
		"gone.go":                 {Change{Old: "100644", New: ModeNone}, "no write rule", ""},
		"docs/a.txt":              {file, "read \"docs/**\"", ""},
		"secrets/k.md":            {file, "deny", ""},
		"src/bob/x":               {file, "exclusive \"src/bob/**\" of agent bob", ""},
		"src/bob/shared/x":        {file, "", ""},
		"src/.gitattributes":      {file, "", "protected \".gitattributes\""},
		".gitattributes":          {file, "no write rule", ""},
		".github/workflows/ci.md": {file, "", "protected"},
		".github/other.md":        {file, "", ""},
		"src/hooks/pre":           {file, "", "protected"},
		"src/hooks/README":        {file, "", ""},
		"src/gen/x":               {file, "", "ask"},
		"src/sub":                 {Change{Old: ModeNone, New: ModeGitlink}, "", "submodule"},
		"vendor":                  {Change{Old: ModeGitlink, New: ModeGitlink}, "no write rule", ""}, // it may also be a file
		"src/l1":                  {link("a.go"), "", ""},
		"src/l2":                  {link("../docs/x"), "", ""},
		"src/l3":                  {link("../secrets"), "may not read", ""},
		"src/l4":                  {link("../secrets/k"), "may not read", ""},
		"src/l5":                  {link("/etc/passwd"), "", "out of the repository"},
		"src/l6":                  {link("../../x"), "", "out of the repository"},
		"src/l7":                  {Change{New: ModeLink, TooLong: true}, "", "4096"},
		"src/l8.md":               {link("../unread"), "may not read", ""},
	} {
		c.change.Path = path
		v := rules.Judge([]Change{c.change})
		switch {
		case c.undeclared != "":
			require.Len(t, v.Undeclared, 1, path)
			require.Contains(t, v.Undeclared[0].Why, c.undeclared, path)
			require.Empty(t, v.Protected, path)
		case c.protected != "":
			require.Empty(t, v.Undeclared, path)
			require.Len(t, v.Protected, 1, path)
			require.Contains(t, v.Protected[0].Why, c.protected, path)
		default:
			require.Equal(t, Verdict{}, v, path)
		}
	}
}

// Without rules of its own an agent may write everything; what acts by itself
// needs a person all the same.
func TestJudgeWithoutRules(t *testing.T) {
	rules := Rules{Protected: protected(t, ".envrc", ".github/workflows/x.yml")}
	v := rules.Judge([]Change{
		{Path: "any", Old: ModeNone, New: "100644"},
		{Path: "deep/.envrc", Old: ModeNone, New: "100644"},
		{Path: ".github", Old: ModeNone, New: ModeLink, Target: "elsewhere"},
		{Path: "git", Old: ModeNone, New: ModeLink, Target: ".git/config"},
	})
	require.Empty(t, v.Undeclared)
	require.Len(t, v.Protected, 3)
	require.Contains(t, v.Protected[1].Why, "above the protected")
	require.Contains(t, v.Protected[2].Why, "git directory")
	require.Equal(t, Verdict{}, Rules{}.Judge([]Change{{Path: ".envrc", Old: ModeNone, New: "100644"}}))
}

// A change that the view would refuse is never merged, under any rules.
func TestWhatTheViewRefusesNeverComesHome(t *testing.T) {
	name := rapid.SampledFrom([]string{"a", "b", "c", "a.go", "d"})
	globs := rapid.SliceOfN(rapid.SampledFrom([]string{"a/**", "b", "*.go", "!a/b", "c/", "**", "/a", "d/**", "!*.go"}), 0, 4)
	rapid.Check(t, func(t *rapid.T) {
		set := compile(t, policy.Rules{Read: globs.Draw(t, "read"), Write: globs.Draw(t, "write"), Deny: globs.Draw(t, "deny"), Hide: globs.Draw(t, "hide"), Ask: globs.Draw(t, "ask")})
		path := strings.Join(rapid.SliceOfN(name, 1, 4).Draw(t, "path"), "/")
		v := Rules{Policy: set}.Judge([]Change{{Path: path, Old: "100644", New: "100644"}})
		switch set.Decide(path, false).Write {
		case policy.Allow:
			require.Equal(t, Verdict{}, v)
		case policy.Ask:
			require.Len(t, v.Protected, 1)
		default:
			require.Len(t, v.Undeclared, 1)
		}
	})
}

func TestParseRawRefusesWhatItCannotRead(t *testing.T) {
	list, err := parseRaw([]byte(":100644 000000 aa bb D\x00a b\nc\x00:000000 120000 aa bb A\x00l\x00"))
	require.NoError(t, err)
	require.Equal(t, []Change{{Path: "a b\nc", Old: "100644", New: ModeNone, OldID: "aa", ID: "bb"}, {Path: "l", Old: ModeNone, New: ModeLink, OldID: "aa", ID: "bb"}}, list)
	for _, bad := range []string{"x", ":100644 000000 aa bb D\x00", "100644 000000 aa bb D\x00p\x00", ":1 2 3 4 5\x00p\x00"} {
		_, err := parseRaw([]byte(bad))
		require.ErrorIs(t, err, ErrRaw, "%q", bad)
	}
}
