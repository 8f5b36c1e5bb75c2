package tomledit

import (
	"fmt"
	"reflect"
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

// FuzzReplace: the result is the file with the value and all else as it was, also comments and the order of lines, or there
// is an error.
func FuzzReplace(f *testing.F) {
	for _, text := range []string{
		"a = 1\n[m]\nk = [\n1]\n", "[m]\nk = \"\\\"\" # x", "k = 1\n[m]\n#k = 2\n[m.n]\nk = 3 # y\n", "[m]\r\nk = { a = 1 }\r\nb = 2\r\n",
		"[[m]]\nk = 1\n", "x = [\n[m],\n]\n", "[ m ] # c\n'k' = 'a#' # z\n", "[\"m\"]\nk = 1\n[n]\n", "[m]\nk.a = 1\n", "[m]\nb = 1\n\n\n", "",
	} {
		for _, table := range []string{"", "m", "m.n"} {
			for _, value := range []string{"2", "'y'", "[\n1, # ]\n]", "\"#\"", "1 # c", "1\nz = 2"} {
				f.Add(text, table, value)
			}
		}
	}
	f.Fuzz(func(t *testing.T, text, table, value string) {
		was := map[string]any{}
		if len(text) > 1000 || len(value) > 200 {
			return // what is compared takes the square of the time
		}
		if _, err := toml.Decode(text, &was); err != nil || table != "" && header.FindString("["+table+"]") == "" {
			return
		}
		out, err := Replace(text, table, "k", value)
		if err != nil {
			return
		}
		require.NoError(t, Differs(text, out, table, "k", value), "%q", out)
		want, _, err := Get("v = "+value, "", "v")
		require.NoError(t, err)
		got, ok, err := Get(out, table, "k")
		require.NoError(t, err)
		require.True(t, ok)
		require.True(t, reflect.DeepEqual(want, got) || fmt.Sprint(want) == fmt.Sprint(got), "%v, not %v", got, want) // NaN
		old, set, err := Get(text, table, "k")
		require.NoError(t, err)
		if set {
			require.True(t, onlyValue(text, out, value, old), "%q became %q", text, out)
		} else {
			require.True(t, onlyLine(text, out, table, "k = "+value), "%q became %q", text, out)
		}
	})
}

// onlyValue reports whether out is text with value in the place of the old one, and nothing else.
func onlyValue(text, out, value string, old any) bool {
	for at := 0; at+len(value) <= len(out); at++ {
		before, after := out[:at], out[at+len(value):]
		if !strings.HasPrefix(out[at:], value) || len(before)+len(after) > len(text) || !strings.HasPrefix(text, before) || !strings.HasSuffix(text, after) {
			continue
		}
		// A comment behind the old value would hide the bracket.
		v, _, err := Get("v = ["+text[len(before):len(text)-len(after)]+"]", "", "v")
		if list, ok := v.([]any); err == nil && ok && len(list) == 1 && fmt.Sprint(list[0]) == fmt.Sprint(old) {
			return true
		}
		if list, ok := v.([]map[string]any); err == nil && ok && len(list) == 1 && fmt.Sprint(list[0]) == fmt.Sprint(old) {
			return true
		}
	}
	return false
}

// onlyLine reports whether out is text with one more line, or with the line in the place of one that has the key in a comment.
func onlyLine(text, out, table, line string) bool {
	if out == strings.TrimRight(text, "\n")+"\n\n["+table+"]\n"+line+"\n" {
		return true
	}
	for at := 0; ; {
		before, rest := text[:at], text[at:]
		if out == before+line+"\n"+rest || rest == "" && out == strings.TrimSuffix(before, "\n")+"\n"+line {
			return true
		}
		this, after, more := strings.Cut(rest, "\n")
		if strings.HasPrefix(this, "#k") && out == before+line+strings.TrimPrefix(rest, this) {
			return true
		}
		if !more {
			return out == text+"\n"+line
		}
		at = len(text) - len(after)
	}
}
