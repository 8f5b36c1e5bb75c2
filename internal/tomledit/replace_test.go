package tomledit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestReplaceKeepsAllButTheValue(t *testing.T) {
	for name, c := range map[string]struct{ text, table, key, want string }{
		"a value and its comment": {"# A.\n[m]\na = 2 # why\ncheck = \"x # y\"  # because\nb = 3\n", "m", "check", "# A.\n[m]\na = 2 # why\ncheck = 1  # because\nb = 3\n"},
		"a list of lines":         {"[m]\ncheck = [\n  \"a]\", # ]\n  [2],\n] # end\nb = 3\n", "m", "check", "[m]\ncheck = 1 # end\nb = 3\n"},
		"an inline table":         {"[m]\n  \"check\" = { a = \"}\", b = [1] }\n", "m", "check", "[m]\n  \"check\" = 1\n"},
		"a literal":               {"[m]\ncheck = 'a\\'\n[n]\ncheck = 2\n", "n", "check", "[m]\ncheck = 'a\\'\n[n]\ncheck = 1\n"},
		"a list like a header":    {"[m]\nx = [\n[1],\n]\ncheck = 2", "m", "check", "[m]\nx = [\n[1],\n]\ncheck = 1"},
		"the top level":           {"a = 2\n[m]\na = 3\n", "", "a", "a = 1\n[m]\na = 3\n"},
		"a key that is not set":   {"[m]\n#check = 2\n", "m", "check", "[m]\ncheck = 1\n"},
		"another line end":        {"[m]\r\ncheck = 2\r\nb = 3\r\n", "m", "check", "[m]\r\ncheck = 1\r\nb = 3\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Replace(c.text, c.table, c.key, "1")
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	_, err := Replace("[m]\ncheck.x = 1\n", "m", "check", "1")
	require.ErrorIs(t, err, ErrSet)
}

// Of any file of the grammar, a file results that has the value, and all else as it was; comments and order stay.
func TestReplaceChangesOneValue(t *testing.T) {
	value := rapid.SampledFrom([]string{"1", "true", `"a # \" ["`, `'it\'`, "[\n  1, # one ]\n  2,\n]", `{ a = "]", b = [1, 2] }`, "1979-05-27T07:32:00Z", `["x", ["y"]]`})
	comment := rapid.SampledFrom([]string{"", " # a comment", "\t#[m]", "  "})
	rapid.Check(t, func(rt *rapid.T) {
		var b strings.Builder
		for _, table := range []string{"", "m", "m.n", "o"} {
			if table != "" {
				fmt.Fprintf(&b, "%s[%s]%s\n", rapid.SampledFrom([]string{"", "\n", "# [x]\n"}).Draw(rt, "before"), table, comment.Draw(rt, "comment"))
			}
			for _, key := range []string{"k", "l", "long-key"} {
				if rapid.Bool().Draw(rt, "has "+key) {
					fmt.Fprintf(&b, "%s = %s%s\n", key, value.Draw(rt, "value"), comment.Draw(rt, "comment"))
				}
			}
		}
		table, key, to := rapid.SampledFrom([]string{"", "m", "m.n", "o"}).Draw(rt, "table"), rapid.SampledFrom([]string{"k", "l"}).Draw(rt, "key"), value.Draw(rt, "to")
		out, err := Replace(b.String(), table, key, to)
		require.NoError(rt, err, b.String())
		require.NoError(rt, Differs(b.String(), out, table, key, to))
		for line := range strings.Lines(b.String()) {
			if strings.HasPrefix(line, "#") {
				require.Contains(rt, out, line)
			}
		}
		again, err := Replace(out, table, key, to)
		require.NoError(rt, err)
		require.Equal(rt, out, again)
	})
}

func TestDiffersRefusesAnotherChange(t *testing.T) {
	const before = "[m]\na = 1\n"
	require.NoError(t, Differs(before, "[m]\na = 1\nb = 2\n", "m", "b", "2"))
	for _, after := range []string{"[m]\nb = 2\n", "[m]\na = 1\n", "[m]\na = 1\nb = 3\n", "[m]\na = 1\nb = 2\n[n]\n", "m = 1\n", "[m\n"} {
		require.Error(t, Differs(before, after, "m", "b", "2"), after)
	}
	require.Error(t, Differs(before, before, "m", "b", "2 2"))
}

// FuzzReplace: a result is the file with the value, or an error.
func FuzzReplace(f *testing.F) {
	f.Add("a = 1\n[m]\nk = [\n1]\n", "m", "2")
	f.Add("[m]\nk = \"\\\"\" # x", "m", "'y'")
	f.Fuzz(func(t *testing.T, text, table, value string) {
		var v map[string]any
		if _, err := toml.Decode(text, &v); err != nil || header.FindString("["+table+"]") == "" {
			t.Skip()
		}
		if out, err := Replace(text, table, "k", value); err == nil && Differs(text, out, table, "k", value) == nil {
			_, err := toml.Decode(out, &v)
			require.NoError(t, err)
		}
	})
}
