package policylearn

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/fusefs/policy"
)

func reads(paths ...string) (out []Use) {
	for _, p := range paths {
		out = append(out, Use{Path: p})
	}
	return out
}

func writes(paths ...string) (out []Use) {
	for _, p := range paths {
		out = append(out, Use{Path: p, Write: true})
	}
	return out
}

func many(dir string, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("%s/f%d", dir, i))
	}
	return out
}

func TestLearn(t *testing.T) {
	for _, tc := range []struct {
		name        string
		uses        []Use
		inForce     policy.Rules
		read, write []string
	}{
		{"exact paths", append(reads("a", "d/b"), writes("d/c")...), policy.Rules{}, []string{"/a", "/d/b"}, []string{"/d/c"}},
		{"a written path can be read", append(reads("a"), writes("a", "b")...), policy.Rules{}, []string{"/a", "/b"}, []string{"/a", "/b"}},
		{"many names of a directory", reads(many("d/e", 8)...), policy.Rules{}, []string{"/d/e/**"}, nil},
		{"fewer names", reads(many("d/e", 2)...), policy.Rules{}, []string{"/d/e/f0", "/d/e/f1"}, nil},
		{"many names of the root stay names", reads("a", "b", "c", "d", "e", "f", "g", "h", "i"), policy.Rules{}, []string{"/a", "/b", "/c", "/d", "/e", "/f", "/g", "/h", "/i"}, nil},
		{"a temporary name is its file", writes("d/.a.go.swp", "d/a.go~", "d/4913"), policy.Rules{}, []string{"/d/a.go"}, []string{"/d/a.go"}},
		{"a name without a file", writes("d/4913"), policy.Rules{}, []string{"/d/4913"}, []string{"/d/4913"}},
		{"a directory that was made for a file", []Use{{Path: "n", Write: true, Dir: true}, {Path: "n/f", Write: true}}, policy.Rules{}, []string{"/n/f"}, []string{"/n/f"}},
		{"a directory that is empty", []Use{{Path: "n", Write: true, Dir: true}}, policy.Rules{}, []string{"/n/**"}, []string{"/n/**"}},
		{"names with signs", reads("a*b", "c?[d]", "!e", "#f", `g\h`, "i ", "j\nk", "l\xff"), policy.Rules{}, []string{`/!e`, `/#f`, `/a\*b`, `/c\?\[d]`, `/g\\h`, `/i\ `, "/j[! -~]k", "/l[! -~]"}, nil},
		{"what is withheld", reads("a", "secret/x", "k.pem", "go.mod"), policy.Rules{Deny: []string{"secret"}, Hide: []string{"*.pem"}, Ask: []string{"go.mod"}}, []string{"/a"}, nil},
		{"a directory whose mode was set", []Use{{Path: "n", Write: true, Dir: true, Attr: true}}, policy.Rules{}, []string{"/n/**"}, []string{"/n/**"}},
		{"the root whose time was set", append(reads("a"), Use{Write: true, Dir: true, Attr: true}), policy.Rules{}, []string{"/a"}, nil},
		{"a tree", []Use{{Path: "d", Tree: true}, {Path: "d/x"}}, policy.Rules{}, []string{"/d/**"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, err := Learn(tc.uses, tc.inForce, Options{})
			require.NoError(t, err)
			require.Equal(t, tc.read, l.Rules.Read)
			require.Equal(t, tc.write, l.Rules.Write)
			set, err := policy.Compile(l.Rules)
			require.NoError(t, err)
			require.Len(t, Check(set, tc.uses), len(l.Withheld))
		})
	}
	_, err := Learn(nil, policy.Rules{}, Options{})
	require.ErrorIs(t, err, ErrNothing)
}

func TestCheckNamesTheRule(t *testing.T) {
	set, err := policy.Compile(policy.Rules{Read: []string{"**"}, Write: []string{"docs/**"}, Deny: []string{"*.pem"}, Ask: []string{"go.mod"}})
	require.NoError(t, err)
	uses := append(reads("a", "k.pem", "go.mod"), writes("docs/x", "main.go")...)
	uses = append(uses, Use{Path: "docs", Write: true, Tree: true}, Use{Path: "src", Write: true, Tree: true}, Use{Path: "", Write: true, Dir: true})
	require.Equal(t, []Refusal{
		{Use{Path: "k.pem"}, "deny", `deny "*.pem"`}, {Use{Path: "go.mod"}, "ask", `ask "go.mod"`},
		{Use{Path: "main.go", Write: true}, "deny", `read "**"`}, {Use{Path: "src", Write: true, Tree: true}, "deny", `read "**"`},
	}, Check(set, uses))
}

func paths() *rapid.Generator[string] {
	name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f.go", "*", "[x]", "s p", "é", "\xff", "new\nline", ".a.swp", "4913", "x.pem", "secret"})
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(name, 1, 4).Draw(t, "names"), "/")
	})
}

func useList() *rapid.Generator[[]Use] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Use {
		u := Use{Path: paths().Draw(t, "path"), Write: rapid.Bool().Draw(t, "write")}
		u.Dir = u.Write && rapid.IntRange(0, 5).Draw(t, "directory") == 0
		u.Attr = u.Dir && rapid.Bool().Draw(t, "its attributes")
		return u
	}), 1, 60)
}

// TestPropertyTheLearnedRoleIsMinimal: it allows everything that was recorded and is not withheld, allows
// nothing that is withheld, has no rule that is not needed, and does not depend on the order.
func TestPropertyTheLearnedRoleIsMinimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		uses := useList().Draw(t, "uses")
		inForce := policy.Rules{}
		pick := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"*.pem", "secret", "/a/b", "/c/**", "e/*.go"}), rapid.ID[string])
		inForce.Deny, inForce.Ask, inForce.Hide = pick.Draw(t, "deny"), pick.Draw(t, "ask"), pick.Draw(t, "hide")
		o := Options{Spread: rapid.IntRange(0, 4).Draw(t, "spread"), MaxRules: rapid.IntRange(1, 40).Draw(t, "most rules")}
		l, err := Learn(uses, inForce, o)
		if err != nil {
			require.ErrorIs(t, err, ErrNothing)
			return
		}
		require.LessOrEqual(t, len(l.Rules.Write), o.MaxRules)
		set, err := policy.Compile(l.Rules)
		require.NoError(t, err)
		withheld, err := policy.Compile(inForce)
		require.NoError(t, err)
		for _, r := range Check(set, uses) {
			require.NotEmpty(t, Check(withheld, []Use{r.Use}), "%q is recorded, and refused by %+v", r.Path, l.Rules)
		}
		for range 20 {
			u := Use{Path: paths().Draw(t, "any path"), Write: rapid.Bool().Draw(t, "write")}
			if len(Check(withheld, []Use{u})) > 0 {
				require.NotEmpty(t, Check(set, []Use{u}), "%q is withheld, and allowed by %+v", u.Path, l.Rules)
			}
		}
		back := slices.Clone(uses)
		slices.Reverse(back)
		other, err := Learn(back, inForce, o)
		require.NoError(t, err)
		require.Equal(t, l.Rules, other.Rules)
		if slices.Equal(l.Rules.Read, l.Rules.Write) {
			return // the rules to read only keep the rest from being read
		}
		refused := len(Check(set, uses))
		for i := range l.Rules.Read {
			r := l.Rules
			r.Read = append(slices.Delete(slices.Clone(r.Read), i, i+1), "/none")
			less, err := policy.Compile(r)
			require.NoError(t, err)
			require.Greater(t, len(Check(less, uses)), refused, "%q is not needed: %+v", l.Rules.Read[i], l.Rules)
		}
		for i := range l.Rules.Write {
			r := l.Rules
			r.Write = slices.Delete(slices.Clone(r.Write), i, i+1) // without any, nothing can be written
			less, err := policy.Compile(r)
			require.NoError(t, err)
			require.Greater(t, len(Check(less, uses)), refused, "%q is not needed: %+v", l.Rules.Write[i], l.Rules)
		}
	})
}

// TestPropertyASetIsBoundedAndCoversWhatWasAdded, however much that was.
func TestPropertyASetIsBoundedAndCoversWhatWasAdded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Set{MaxUses: rapid.IntRange(2, 20).Draw(t, "uses"), MaxBytes: rapid.IntRange(10, 300).Draw(t, "bytes")}
		uses := useList().Draw(t, "added")
		for _, u := range uses {
			s.Add(u)
			require.LessOrEqual(t, len(s.uses), max(s.MaxUses, 4))
			require.False(t, s.Add(u), "it is there")
		}
		for _, u := range uses {
			require.True(t, s.has(u))
		}
		total := 0
		for _, u := range s.Uses() {
			total += len(u.Path)
		}
		require.Equal(t, total, s.bytes)
		l, err := Learn(s.Uses(), policy.Rules{}, Options{})
		require.NoError(t, err)
		set, err := policy.Compile(l.Rules)
		require.NoError(t, err)
		require.Empty(t, Check(set, uses), "%+v", l.Rules)
	})
}

// TestASetThatIsFullJoinsTheWidestDirectory, and keeps what is elsewhere.
func TestASetThatIsFullJoinsTheWidestDirectory(t *testing.T) {
	var s Set
	s.Add(Use{Path: "src/a/b/c/d/main.go", Write: true})
	for i := range 3 * MaxUses {
		s.Add(Use{Path: fmt.Sprintf("node_modules/p%d/lib/f%d.js", i%500, i), Write: true})
	}
	require.True(t, s.Coarse())
	require.LessOrEqual(t, len(s.uses), MaxUses)
	l, err := Learn(s.Uses(), policy.Rules{}, Options{})
	require.NoError(t, err)
	require.Equal(t, []string{"/node_modules/**", "/src/a/b/c/d/main.go"}, l.Rules.Write)
}
