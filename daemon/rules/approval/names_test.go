package approval

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestABaseTypeNamesItsTools(t *testing.T) {
	names, err := ReadNames(map[string][]string{"bash": {"Terminal"}, "net": {"Browse"}, "other": {"Plan", "fetch"}})
	require.NoError(t, err)
	for _, c := range []struct {
		tool, name string
		class      api.ToolClass
	}{
		{"terminal", "bash", api.ToolShell},
		{"Browse", "Browse", api.ToolNet},
		{"Plan", "Plan", api.ToolOther},
		{"fetch", "fetch", api.ToolOther}, // its own meaning is stronger than the usual one
		{"Read", "read_file", api.ToolRead},
		{"unknown", "unknown", api.ToolOther},
	} {
		name, class := names.Canonical(c.tool)
		require.Equal(t, c.name, name, c.tool)
		require.Equal(t, c.class, class, c.tool)
	}
	set, err := names.Compile(api.ToolRules{AutoDeny: []string{"shell(rm *)"}, AutoApprove: []string{"Terminal(ls)", "net"}})
	require.NoError(t, err)
	for tool, want := range map[string]api.Verdict{"Terminal": api.VerdictDeny, "Browse": api.VerdictApprove, "fetch": api.VerdictAsk} {
		q, err := names.Question(tool, map[string]any{"command": "rm -rf x"}, nil)
		require.NoError(t, err)
		require.Equal(t, want, Rules{Tools: set}.Decide(q).Verdict, tool)
	}
}

func TestTablesOfToolsThatAreRefused(t *testing.T) {
	many := make([]string, maxNames+1)
	for i := range many {
		many[i] = strings.Repeat("x", 1+i%190) + string(rune('a'+i/190))
	}
	for what, table := range map[string]map[string][]string{
		"must be a class of tools":   {"hammer": {"x"}},
		"must be the name of a tool": {"bash": {"a b"}},
		"named twice":                {"bash": {"Run"}, "other": {"run"}},
		"more than 500":              {"other": many},
	} {
		_, err := ReadNames(table)
		require.ErrorContains(t, err, what)
		require.Equal(t, api.CodeInvalidConfig, api.CodeOf(err))
	}
	_, err := ReadNames(map[string][]string{"bash": {""}})
	require.Error(t, err)
}

func TestTheNamesThatRulesUse(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range tools {
		for _, n := range row.names {
			require.Equal(t, strings.ToLower(n), n)
			require.False(t, seen[n], n)
			seen[n] = true
		}
	}
	require.Subset(t, KnownTools(), []string{"read_file", "glob", "grep", "bash", "write_file"}, "seed 003")
}

func TestAPatchIsAboutAllOfItsFiles(t *testing.T) {
	patch := "*** Begin Patch\n*** Update File: src/a.go\n*** Move to: docs/a.go\n@@\n-x\n+*** Add File: no\n*** Add File: /repo/src/b.go\n+y\n*** Delete File: src/a.go\n*** End Patch"
	for what, input := range map[string]map[string]any{
		"text": {"input": patch}, "command": {"command": patch}, "words": {"command": []any{"apply_patch", patch}},
	} {
		q, err := ToolQuestion("apply_patch", input, []string{"/repo"})
		require.NoError(t, err, what)
		require.Equal(t, []string{"src/a.go", "docs/a.go", "src/b.go"}, q.Paths, what)
		require.Equal(t, "src/a.go\x00docs/a.go\x00src/b.go", q.Text, what)
	}
	role := func(r api.ToolRules) api.Verdict {
		return decide(t, r, "apply_patch", map[string]any{"input": patch}).Verdict
	}
	require.Equal(t, api.VerdictAsk, role(api.ToolRules{AutoApprove: []string{"edit(src/)"}}), "one file is elsewhere")
	require.Equal(t, api.VerdictApprove, role(api.ToolRules{AutoApprove: []string{"edit(**)"}}))
	require.Equal(t, api.VerdictDeny, role(api.ToolRules{AutoDeny: []string{"edit(docs/)"}, AutoApprove: []string{"edit"}}), "one file is enough")
	_, err := ToolQuestion("Write", map[string]any{"file_path": "a\x00b"}, nil)
	require.ErrorContains(t, err, "NUL")
}
