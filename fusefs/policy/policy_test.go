package policy

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func mustCompile(t interface {
	require.TestingT
	Helper()
}, r Rules) *Set {
	t.Helper()
	s, err := Compile(r)
	require.NoError(t, err)
	return s
}

func TestDecide(t *testing.T) {
	const a, d, k, h = Allow, Deny, Ask, Hide
	for _, tc := range []struct {
		name        string
		rules       Rules
		path        string
		dir         bool
		read, write Verdict
		rule        string
	}{
		{"no rules allow everything", Rules{}, "a/b", false, a, a, ""},
		{"only write: everything readable", Rules{Write: []string{"src/**"}}, "docs/a", false, a, d, ""},
		{"only write: declared writable", Rules{Write: []string{"src/**"}}, "src/a", false, a, a, `write "src/**"`},
		{"write of everything in a directory covers making it", Rules{Write: []string{"src/**"}}, "src", true, a, a, `write "src/**"`},
		{"but not a file of that name", Rules{Write: []string{"src/**"}}, "src", false, a, d, ""},
		{"only read: nothing writable", Rules{Read: []string{"src"}}, "src/a", false, a, d, `read "src"`},
		{"only read: rest unreadable", Rules{Read: []string{"src"}}, "docs/a", false, d, d, ""},
		{"write implies read", Rules{Read: []string{"docs"}, Write: []string{"src"}}, "src/a", false, a, a, `write "src"`},
		{"write beats read", Rules{Read: []string{"*"}, Write: []string{"src"}}, "src/a", false, a, a, `write "src"`},
		{"ask beats write", Rules{Write: []string{"**"}, Ask: []string{"go.mod"}}, "go.mod", false, k, k, `ask "go.mod"`},
		{"deny beats ask", Rules{Ask: []string{"*.pem"}, Deny: []string{"*.pem"}}, "x/a.pem", false, d, d, `deny "*.pem"`},
		{"hide beats deny", Rules{Deny: []string{"s"}, Hide: []string{"s"}}, "s/a", false, h, h, `hide "s"`},
		{"only deny: the rest is free", Rules{Deny: []string{"s"}}, "a", false, a, a, ""},
		{"a pattern without slash matches at any depth", Rules{Deny: []string{"s"}}, "a/b/s/c", false, d, d, `deny "s"`},
		{"a leading slash anchors", Rules{Deny: []string{"/s"}}, "a/s", false, a, a, ""},
		{"an inner slash anchors", Rules{Deny: []string{"a/s"}}, "b/a/s", false, a, a, ""},
		{"a trailing slash wants a directory", Rules{Deny: []string{"s/"}}, "s", false, a, a, ""},
		{"and finds it", Rules{Deny: []string{"s/"}}, "s", true, d, d, `deny "s/"`},
		{"and covers what is in it", Rules{Deny: []string{"s/"}}, "x/s/y", false, d, d, `deny "s/"`},
		{"a negation", Rules{Write: []string{"src", "!src/gen"}}, "src/gen/x", false, a, d, ""},
		{"negation within deny", Rules{Deny: []string{".env*", "!.env.example"}}, ".env.example", false, a, a, ""},
		{"the last one wins", Rules{Deny: []string{"!a", "a"}}, "a", false, d, d, `deny "a"`},
		{"denying the content leaves the directory", Rules{Deny: []string{"s/**"}}, "s", true, a, a, ""},
		{"a..b is a name", Rules{Write: []string{"a..b"}}, "a..b", false, a, a, `write "a..b"`},
		{"double star in the middle is any depth", Rules{Deny: []string{"a/**/z"}}, "a/z", false, d, d, `deny "a/**/z"`},
		{"deep", Rules{Deny: []string{"a/**/z"}}, "a/b/c/z/q", false, d, d, `deny "a/**/z"`},
		{"star stays in its component", Rules{Deny: []string{"a/*.go"}}, "a/b/c.go", false, a, a, ""},
		{"brackets", Rules{Deny: []string{"[a-c]?.k[!x]"}}, "b1.ky", false, d, d, `deny "[a-c]?.k[!x]"`},
		{"the root of a writable tree", Rules{Write: []string{"**"}}, "", true, a, a, `write "**"`},
		{"the root of a limited tree", Rules{Write: []string{"src"}}, "", true, a, d, ""},
		{"a name that only begins alike", Rules{Deny: []string{"sec"}}, "secret", false, a, a, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := mustCompile(t, tc.rules)
			for range 2 { // the second answer comes from the cache
				got := s.Decide(tc.path, tc.dir)
				require.Equal(t, Decision{tc.read, tc.write, tc.rule}, got, "%s / %s", got.Read, got.Write)
			}
		})
	}
}

func TestCompileNamesTheRule(t *testing.T) {
	for _, g := range []string{"", "/", "!", "a//b", "a/../b", "..", "./a", "a[", "a[[:nope:]]", `a\`, "a\x00b", strings.Repeat("a", 5000)} {
		_, err := Compile(Rules{Read: []string{"ok"}, Deny: []string{"ok", g}})
		var re *RuleError
		require.ErrorAs(t, err, &re, "%q", g)
		require.Equal(t, "deny", re.List)
		require.Equal(t, 1, re.Index)
		require.Equal(t, g, re.Glob)
	}
	_, err := Compile(Rules{Read: make([]string, MaxRules+1)})
	require.ErrorContains(t, err, "at most")
}

func TestRulesJSONIsLowerCase(t *testing.T) {
	b, err := json.Marshal(Rules{Read: []string{"a"}, Hide: []string{"b"}})
	require.NoError(t, err)
	require.JSONEq(t, `{"read":["a"],"hide":["b"]}`, string(b))
}

func TestSetKeepsItsRules(t *testing.T) {
	r := Rules{Write: []string{"src"}}
	s := mustCompile(t, r)
	r.Write[0] = "docs"
	got := s.Rules()
	require.Equal(t, "src", got.Write[0])
	got.Write[0] = "x"
	require.Equal(t, "src", s.Rules().Write[0])
}

func TestAllWritable(t *testing.T) {
	for _, tc := range []struct {
		name  string
		rules Rules
		dir   string
		want  bool
	}{
		{"no rules", Rules{}, "a", true},
		{"write all", Rules{Write: []string{"**"}}, "a", true},
		{"write the directory", Rules{Write: []string{"a"}}, "a", true},
		{"write the directory's content", Rules{Write: []string{"a/**"}}, "a", true},
		{"write some of it", Rules{Write: []string{"a/*.go"}}, "a", false},
		{"write elsewhere", Rules{Write: []string{"b"}}, "a", false},
		{"negation below", Rules{Write: []string{"a", "!a/b"}}, "a", false},
		{"negation elsewhere", Rules{Write: []string{"a", "!/b/c"}}, "a", true},
		{"deny below", Rules{Deny: []string{"a/b"}}, "a", false},
		{"deny elsewhere", Rules{Deny: []string{"/b/c"}}, "a", true},
		{"deny anywhere", Rules{Deny: []string{"*.pem"}}, "a", false},
		{"only read", Rules{Read: []string{"**"}}, "a", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, mustCompile(t, tc.rules).AllWritable(tc.dir))
		})
	}
}

func TestTempTargets(t *testing.T) {
	temps, err := CompileTemps([]string{".{name}.*.part", "{name}.new"})
	require.NoError(t, err)
	for _, tc := range []struct {
		path, dest string
		kind       Kind
	}{
		{"src/a.go", "src/a.go", Ordinary},
		{"src/a.go.tmp.1234.0af9c2", "src/a.go", Known},
		{"a.go.0123456789ab.tmp", "a.go", Known},
		{"a.go.0123456789a.tmp", "a.go.0123456789a.tmp", Ordinary},
		{"d/a.go~", "d/a.go", Known},
		{"d/a.go.~12~", "d/a.go", Known},
		{"d/.a.go.swp", "d/a.go", Known},
		{"d/.a.go.swx", "d/a.go", Known},
		{"d/.a.go.swo", "d/a.go", Known},
		{"d/#a.go#", "d/a.go", Known},
		{"d/.#a.go", "d/a.go", Known},
		{"d/4913", "d", Unknown},
		{"4913", "", Unknown},
		{"d/sedAb12Cd", "d", Unknown},
		{"d/sediment.go", "d/sediment.go", Ordinary},
		{"~", "~", Ordinary},
		{"..~", "..~", Ordinary},
		{".~", ".~", Ordinary},
		{"##", "##", Ordinary},
		{".#..", ".#..", Ordinary},
		{"#.#", "#.#", Ordinary},
		{"d/.a.go.77.part", "d/a.go", Known},
		{"d/a.new", "d/a", Known},
		{"x.tmp.12.zz", "x.tmp.12.zz", Ordinary},
	} {
		dest, kind := temps.Classify(tc.path)
		require.Equal(t, tc.dest, dest, tc.path)
		require.Equal(t, tc.kind, kind, tc.path)
	}
	for _, bad := range []string{"x", "{name}", "{name}{name}", "a/{name}.x"} {
		_, err := CompileTemps([]string{bad})
		require.Error(t, err, bad)
	}
}

func TestDecideThroughTemporaryNames(t *testing.T) {
	s := mustCompile(t, Rules{Write: []string{"src/a.go"}, Deny: []string{"*.key"}, Ask: []string{"go.mod"}})
	for _, tc := range []struct {
		path  string
		write Verdict
	}{
		{"src/a.go.tmp.1.ff", Allow},
		{"src/.a.go.swp", Allow},
		{"src/4913", Allow},
		{"src/sedABCDEF", Allow},
		{"src/b.go.tmp.1.ff", Deny},
		{"docs/4913", Deny},
		{"docs/sedABCDEF", Deny},
		{"x.key~", Deny},
		{".x.key.swp", Deny},
		{"go.mod.tmp.1.ff", Ask},
	} {
		require.Equal(t, tc.write, s.DecideThrough(tc.path, false).Write, tc.path)
	}
}

// A rule list is a function of the path alone: neither asking twice, nor
// asking about other paths in between, nor the size of the cache changes an
// answer; and a temporary name never gets more than its destination or itself.
func TestDecisionsAreStable(t *testing.T) {
	globs := rapid.SliceOfN(rapid.StringMatching(`!?/?(\*\*/)?[ab*?](/[abc]|/\*\*|/\*\.a)?/?`), 0, 4)
	paths := rapid.StringMatching(`[abc](/[abc.]{1,3}){0,3}`)
	rapid.Check(t, func(t *rapid.T) {
		r := Rules{Read: globs.Draw(t, "r"), Write: globs.Draw(t, "w"), Ask: globs.Draw(t, "a"), Deny: globs.Draw(t, "d"), Hide: globs.Draw(t, "h")}
		s, err := Compile(r)
		if err != nil {
			t.Skip()
		}
		for range 20 {
			p, dir := paths.Draw(t, "p"), rapid.Bool().Draw(t, "dir")
			d := s.decide(p, dir)
			require.Equal(t, d, s.Decide(p, dir))
			require.Equal(t, d, s.Decide(p, dir))
			if d.Write == Allow {
				require.Equal(t, Allow, d.Read)
			}
			if s.AllWritable(p) {
				require.Equal(t, Allow, s.Decide(p+"/a/b.a", false).Write)
				require.Equal(t, Allow, s.Decide(p+"/c", true).Write)
			}
		}
	})
}

func FuzzTemps(f *testing.F) {
	for _, s := range []string{"a/.b.swp", "a~", "#a#", "a.tmp.1.f", ".#.."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		dest, ok := TempTarget(path)
		if !ok {
			return
		}
		require.LessOrEqual(t, len(dest), len(path))
		dir := path[:strings.LastIndexByte(path, '/')+1]
		name, in := strings.CutPrefix(dest, dir)
		require.True(t, in)
		require.True(t, plain(name))
		require.NotContains(t, name, "/")
	})
}

func BenchmarkDecide(b *testing.B) {
	var r Rules
	for i := range 20 {
		r.Write = append(r.Write, "dir"+string(rune('a'+i))+"/**/*.go")
	}
	s, err := Compile(r)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		s.Decide("some/where/deep/in/the/tree.go", false)
	}
}

func BenchmarkDecideCold(b *testing.B) {
	var r Rules
	for i := range 20 {
		r.Write = append(r.Write, "dir"+string(rune('a'+i))+"/**/*.go")
	}
	r.Deny = []string{"*.pem", "secrets/", "**/private/**"}
	s, err := Compile(r)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		s.decide("some/where/deep/in/the/tree.go", false)
	}
}

// TestARuleIsShownAsItWasWritten: it is copied from there.
func TestARuleIsShownAsItWasWritten(t *testing.T) {
	s, err := Compile(Rules{Deny: []string{`app/\[id\]/**`, "a\nb"}})
	require.NoError(t, err)
	require.Equal(t, `deny "app/\[id\]/**"`, s.Decide("app/[id]/x", false).Rule)
	require.Equal(t, `deny "a\nb"`, s.Decide("a\nb", false).Rule)
}
