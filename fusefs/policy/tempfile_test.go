package policy

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTempFilesAreInDirectoriesWithSingleFilesToWrite(t *testing.T) {
	for name, tc := range map[string]struct {
		rules   Rules
		yes, no []string
	}{
		"one file": {
			Rules{Write: []string{"src/f"}},
			[]string{"src/x", "src/f.orig"}, []string{"src/f", "x", "src/sub/x", "other/x", "src/f~"},
		},
		"only the name":      {Rules{Write: []string{"f.go"}}, []string{"x", "a/b/x"}, []string{"f.go", "a/f.go", "a/f.go/x"}},
		"a glob":             {Rules{Write: []string{"src/*.go"}}, []string{"src/x"}, []string{"src/x.go", "x", "src/sub/x"}},
		"any depth":          {Rules{Write: []string{"src/**/f"}}, []string{"src/x", "src/a/b/x"}, []string{"x", "other/x"}},
		"a directory":        {Rules{Write: []string{"src/"}}, nil, []string{"x", "src/x", "other/x"}},
		"a tree":             {Rules{Write: []string{"src/**"}}, nil, []string{"x", "src/x", "other/x"}},
		"the root":           {Rules{Write: []string{"/f"}}, []string{"x"}, []string{"f", "a/x"}},
		"after a question":   {Rules{Read: []string{"**"}, Ask: []string{"src/f"}}, []string{"src/x"}, []string{"src/f", "x"}},
		"named in deny":      {Rules{Write: []string{"src/f"}, Deny: []string{"src/secret*"}}, []string{"src/x"}, []string{"src/secret.tmp"}},
		"named in hide":      {Rules{Write: []string{"src/f"}, Hide: []string{"*.tmp"}}, []string{"src/x"}, []string{"src/f.tmp"}},
		"named in ask":       {Rules{Write: []string{"src/f"}, Ask: []string{"*.tmp"}}, []string{"src/x"}, []string{"src/f.tmp"}},
		"excluded":           {Rules{Write: []string{"src/*", "!src/gen*"}}, nil, []string{"src/gen.tmp"}},
		"the file is denied": {Rules{Write: []string{"src/f"}, Deny: []string{"src/f"}}, nil, []string{"src/x"}},
		"nothing to write":   {Rules{Read: []string{"src/**"}}, nil, []string{"src/x"}},
		"no rules":           {Rules{}, nil, []string{"x"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Compile(tc.rules)
			require.NoError(t, err)
			for _, p := range tc.yes {
				require.True(t, s.TempFile(p, nil), p)
			}
			for _, p := range tc.no {
				require.False(t, s.TempFile(p, nil), p)
			}
		})
	}
}

// A rule that names a directory names what is in it, and nothing beside it: no file becomes that directory.
func TestADirectoryIsNoFileToBecome(t *testing.T) {
	s, err := Compile(Rules{Write: []string{"/docs", "src/f"}})
	require.NoError(t, err)
	is := func(dir string) func(string) bool { return func(p string) bool { return p == dir } }
	require.False(t, s.TempFile("new.txt", is("docs")))
	require.True(t, s.TempFile("new.txt", is("src")), "docs can be a file")
	require.True(t, s.TempFile("src/new", is("docs")))
	require.False(t, s.TempFile("src/new", is("src/f")))
}
