package approval

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhatAnEditWouldChangeIsShown(t *testing.T) {
	file := func(path string) (string, bool) { return "one\ntwo\n", path == "a.txt" }
	many := strings.Repeat("line\n", 1000)
	for name, c := range map[string]struct {
		tool   string
		input  map[string]any
		want   []string
		hidden int
	}{
		"old and new text": {tool: "Edit", input: map[string]any{"file_path": "/repo/a.txt", "old_string": "two\n", "new_string": "2\n"},
			want: []string{"--- a/a.txt", "+++ b/a.txt", "@@ -1 +1 @@", "-two", "+2"}},
		"several edits": {tool: "MultiEdit", input: map[string]any{"file_path": "a.txt", "edits": []any{map[string]any{"old_string": "a\n", "new_string": "b\n"}, map[string]any{"old_string": "c\n", "new_string": ""}}},
			want: []string{"--- a/a.txt", "+++ b/a.txt", "@@ -1 +1 @@", "-a", "+b", "--- a/a.txt", "+++ b/a.txt", "@@ -1 +0,0 @@", "-c"}},
		"another program's names": {tool: "str_replace_editor", input: map[string]any{"path": "a.txt", "old_str": "a\n", "new_str": "b\n"},
			want: []string{"--- a/a.txt", "+++ b/a.txt", "@@ -1 +1 @@", "-a", "+b"}},
		"a content, against the file": {tool: "Write", input: map[string]any{"file_path": "a.txt", "content": "one\n2\n"},
			want: []string{"--- a/a.txt", "+++ b/a.txt", "@@ -1,2 +1,2 @@", " one", "-two", "+2"}},
		"a new file": {tool: "write_file", input: map[string]any{"file_path": "b.txt", "content": "x\n"},
			want: []string{"a file that cannot be compared (new, no regular file, or too large) gets this content:", "--- a/b.txt", "+++ b/b.txt", "@@ -0,0 +1 @@", "+x"}},
		"the same": {tool: "Write", input: map[string]any{"file_path": "a.txt", "content": "one\ntwo\n"}, want: []string{"nothing changes: both texts are equal"}},
		"a patch":  {tool: "apply_patch", input: map[string]any{"input": "*** Begin Patch\n-a\n+b\n"}, want: []string{"*** Begin Patch", "-a", "+b"}},
		"hostile text": {tool: "Edit", input: map[string]any{"file_path": "a\x1b[2J", "old_string": "a\n", "new_string": "\x1b[1A\rb\u202e\n"},
			want: []string{`--- a/a\x1b[2J`, `+++ b/a\x1b[2J`, "@@ -1 +1 @@", "-a", `+\x1b[1A\x0db\u202e`}},
		"a long line": {tool: "Edit", input: map[string]any{"file_path": "a", "old_string": "", "new_string": strings.Repeat("x", 600) + "\n"},
			want: []string{"--- a/a", "+++ b/a", "@@ -0,0 +1 @@", "+" + strings.Repeat("x", 499) + " [101 bytes more]"}},
		"no edit":               {tool: "Bash", input: map[string]any{"command": "x", "old_string": "a", "new_string": "b"}},
		"an unknown form":       {tool: "Edit", input: map[string]any{"file_path": "a", "how": "somehow"}},
		"arguments that lie":    {tool: "Edit", input: map[string]any{"file_path": "a", "old_string": 7, "new_string": "b"}},
		"more than is compared": {tool: "Edit", input: map[string]any{"file_path": "a", "old_string": strings.Repeat("x", maxDiffInput+1), "new_string": ""}, want: []string{"262145 bytes become 0 bytes: more than is compared"}},
		"many lines":            {tool: "Edit", input: map[string]any{"file_path": "a", "old_string": "", "new_string": many}, hidden: 3 + 1000 - maxDiffLines},
	} {
		t.Run(name, func(t *testing.T) {
			q, err := ToolQuestion(c.tool, c.input, []string{"/repo"})
			require.NoError(t, err)
			lines, hidden := Diff(q, file)
			require.Equal(t, c.hidden, hidden)
			if c.hidden > 0 {
				require.Len(t, lines, maxDiffLines)
				return
			}
			require.Equal(t, c.want, lines)
		})
	}
}

// The time of a diff does not grow with the number of differences without bound.
func TestADiffOfTextsThatHaveNothingInCommonIsBounded(t *testing.T) {
	text := func(seed int) string {
		var b strings.Builder
		for i := 0; b.Len() < 200<<10; i++ {
			fmt.Fprintln(&b, (i*2654435761+seed)%1000003, i%7)
		}
		return b.String()
	}
	q, err := ToolQuestion("Edit", map[string]any{"file_path": "a", "old_string": text(1), "new_string": text(2)}, nil)
	require.NoError(t, err)
	start := time.Now()
	lines, hidden := Diff(q, nil)
	require.Len(t, lines, maxDiffLines)
	require.Positive(t, hidden)
	t.Logf("%d bytes compared in %s", 400<<10, time.Since(start))
}
